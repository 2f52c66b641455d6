//! [`NameList`]: a closed list of names, one for each option with a name as its value.

use super::Table;

/// A closed list of names.
#[derive(Debug)]
pub struct NameList {
    /// What the list is called in the schema.
    pub title: &'static str,
    /// The subject of the names.
    pub doc: &'static str,
    /// The names.
    pub names: &'static [NameDef],
}

/// A name and what it means.
#[derive(Clone, Copy, Debug)]
pub struct NameDef {
    /// As it is written.
    pub name: &'static str,
    /// What it means.
    pub doc: &'static str,
    /// Canonical keys that a spec reads if it uses the name.
    pub reads: &'static [&'static str],
    /// The numbers that the name requires, in a table with `kind`.
    pub numbers: Option<&'static Table>,
}

impl NameList {
    /// Every name.
    pub fn all(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.names.iter().map(|def| def.name)
    }
}

/// An enum whose values are the names of a list; [`names!`](crate::names) makes it.
pub trait NameEnum: Copy + 'static {
    /// The list, in the order of the values.
    const LIST: &'static NameList;
    /// Every value, in the order of the list.
    const VALUES: &'static [Self];
}

/// Declares a closed list of names as an enum: `Variant = "name"`, each with its doc comment, which the reference page
/// and the schema show. `=> &[..]` after a name lists the keys that a spec reads if it uses the name.
#[macro_export]
macro_rules! names {
    (
        $(#[doc = $list_doc:literal])+
        $vis:vis enum $list:ident {
            $(
                $(#[doc = $doc:literal])+
                $variant:ident = $name:literal $(=> $reads:expr)?
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $list_doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $list {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $list {
            /// Its name in the language.
            $vis fn name(self) -> &'static str {
                match self {
                    $($list::$variant => $name,)+
                }
            }
        }

        impl $crate::kind::NameEnum for $list {
            const LIST: &'static $crate::kind::NameList = &$crate::kind::NameList {
                title: stringify!($list),
                doc: concat!($($list_doc, "\n"),+),
                names: &[$($crate::kind::NameDef {
                    name: $name,
                    doc: concat!($($doc, "\n"),+),
                    reads: $crate::names!(@reads $($reads)?),
                    numbers: None,
                }),+],
            };
            const VALUES: &'static [Self] = &[$($list::$variant),+];
        }

        impl $crate::kind::Value for $list {
            const TYPE: $crate::kind::FieldType =
                $crate::kind::FieldType::Name(<$list as $crate::kind::NameEnum>::LIST);

            fn read(
                at: &mut $crate::kind::ResolveContext<'_>,
                index: usize,
            ) -> Result<Self, $crate::kind::RecordedFault> {
                at.named(index)
            }
        }

        impl serde::Serialize for $list {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }
    };
    (@reads) => { &[] };
    (@reads $reads:expr) => { $reads };
}
