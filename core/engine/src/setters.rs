//! [`setters`]: builder methods of options, each of which sets one field.

/// Writes a `with_<field>` method for each field of options: `setters! { Options: with_field(field: type), }`. A type
/// may be `impl Into<Option<T>>`, so that callers need not write `Some`.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    ($options:ident: $($with:ident($field:ident: $type:ty),)+) => {
        impl $options {
            $(
                #[doc = concat!("The same with this [`Self::", stringify!($field), "`].")]
                #[must_use]
                pub fn $with(mut self, $field: $type) -> Self {
                    self.$field = $field.into();
                    self
                }
            )+
        }
    };
}

pub(crate) use setters;
