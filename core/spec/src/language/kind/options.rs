//! [`Options`]: the decoded options of a table as a struct, declared together with the table.

use super::{RecordedFault, ResolveContext, Table};

/// Options of a table; [`options!`](crate::options) makes it.
pub trait Options: Sized {
    /// The table.
    const TABLE: &'static Table;

    /// Reads all fields.
    ///
    /// # Errors
    /// A fault was recorded.
    fn read(at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault>;
}

/// Declares a table of the language and the struct of its decoded options at once.
///
/// Per field: doc comment, `name: Type = Default`, and `=> guarded` if an error in it would show only in the logits.
/// Types are those that implement [`Value`](crate::kind::Value).
#[macro_export]
macro_rules! options {
    (
        $(#[doc = $table_doc:literal])+
        $(#[derive($($derive:path),*)])?
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $ty:ty = $default:expr $(=> $guard:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $table_doc])+
        $(#[derive($($derive),*)])?
        $vis struct $table {
            $($(#[doc = $doc])+ $vis $field: $ty,)*
        }

        impl $crate::kind::Options for $table {
            const TABLE: &'static $crate::kind::Table = &$crate::kind::Table {
                title: stringify!($table),
                doc: concat!($($table_doc, "\n"),+),
                fields: &[$($crate::kind::Field {
                    name: stringify!($field),
                    ty: <$ty as $crate::kind::Value>::TYPE,
                    default: {
                        #[allow(unused_imports)]
                        use $crate::kind::FieldDefault::*;
                        $default
                    },
                    guarded: $crate::options!(@guard $($guard)?),
                    doc: concat!($($doc, "\n"),+),
                }),*],
            };

            #[allow(unused_variables, unused_mut, unused_assignments)]
            fn read(at: &mut $crate::kind::ResolveContext<'_>) -> Result<Self, $crate::kind::RecordedFault> {
                let mut index = 0;
                $(
                    let $field = <$ty as $crate::kind::Value>::read(at, index);
                    index += 1;
                )*
                Ok($table { $($field: $field?),* })
            }
        }

        impl $crate::kind::Value for $table {
            const TYPE: $crate::kind::FieldType =
                $crate::kind::FieldType::Table(<$table as $crate::kind::Options>::TABLE);

            fn read(
                at: &mut $crate::kind::ResolveContext<'_>,
                index: usize,
            ) -> Result<Self, $crate::kind::RecordedFault> {
                at.table(index)
            }
        }
    };
    (@guard) => { false };
    (@guard guarded) => { true };
}
