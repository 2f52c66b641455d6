//! [`Name`]: closed lists of formulas with names; the macro `names!` declares them.

/// A name and its meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// As specs write it.
    pub name: &'static str,
    /// Its meaning, for reference pages.
    pub doc: &'static str,
}

/// Declares a closed list of formulas as an enum: `Variant = "name"`, each with its doc comment. A formula with numbers
/// is `Variant(Numbers = typical) = "name"`, with a value of `Numbers` for tests.
///
/// Every list has the constants `TITLE` (its type's name), `DOC`, `NAMES` and `ALL` (one value per name), and `name()`.
macro_rules! names {
    (
        $(#[doc = $list_doc:literal])+
        $(#[derive($($derived:ident),+)])?
        $vis:vis enum $list:ident {
            $(
                $(#[doc = $doc:literal])+
                $variant:ident $(($numbers:ident = $typical:expr))? = $name:literal
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $list_doc])+
        #[derive(Clone, Copy, Debug, PartialEq $($(, $derived)+)?)]
        $vis enum $list {
            $($(#[doc = $doc])+ $variant $(($numbers))?,)+
        }

        impl $list {
            /// The name of the type.
            $vis const TITLE: &'static str = stringify!($list);
            /// The subject of the list, for reference pages.
            $vis const DOC: &'static str = concat!($($list_doc, "\n"),+);
            /// The names, in the order of declaration.
            $vis const NAMES: &'static [$crate::Name] =
                &[$($crate::Name { name: $name, doc: concat!($($doc, "\n"),+) }),+];
            /// One value per name, in the order of [`Self::NAMES`]. A formula with numbers has typical ones.
            $vis const ALL: &'static [Self] = &[$($list::$variant $(($typical))?),+];

            /// The name that specs write.
            $vis fn name(self) -> &'static str {
                match self {
                    $(names!(@pattern $list $variant $($numbers)?) => $name,)+
                }
            }
        }
    };
    (@pattern $list:ident $variant:ident) => { $list::$variant };
    (@pattern $list:ident $variant:ident $numbers:ident) => { $list::$variant(_) };
}
