//! [`Options`]: the decoded options of a component as a struct, declared together with their table.

use crate::abi::OptionDef;
use crate::build::Build;
use crate::error::{Error, Result};

/// Options of a component; [`options!`](crate::options!) makes it.
pub trait Options: Sized {
    /// The table.
    const ROWS: &'static [OptionRow];

    /// Reads every field.
    ///
    /// # Errors
    /// A value that the host does not have.
    fn read(build: &Build) -> Result<Self>;
}

impl Options for () {
    const ROWS: &'static [OptionRow] = &[];

    fn read(_build: &Build) -> Result<()> {
        Ok(())
    }
}

/// The description of an option.
#[derive(Clone, Copy, Debug)]
pub struct OptionRow {
    /// Its key.
    pub name: &'static str,
    /// One sentence.
    pub doc: &'static str,
    /// The type of its values.
    pub ty: OptionType,
    /// Its default.
    pub default: OptionDefault,
    /// Whether a wrong value only shows in the logits, because no file states it.
    pub guarded: bool,
}

/// The type of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionType {
    /// A non-negative whole number, or an expression for one.
    Count,
    /// A number, or an expression for one.
    Real,
    /// One of a list of names.
    Name(&'static [&'static str]),
    /// A text; only for samplers, tokenizers and layer hooks, because specs have no texts.
    Text,
}

impl OptionType {
    pub(crate) fn kind(self) -> u32 {
        match self {
            Self::Count => OptionDef::COUNT,
            Self::Real => OptionDef::REAL,
            Self::Name(_) => OptionDef::NAME,
            Self::Text => OptionDef::TEXT,
        }
    }
}

/// The default of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionDefault {
    /// None: the option is required.
    Required,
    /// A number.
    Number(f64),
    /// A name of its list.
    Name(&'static str),
    /// A text without `"` and `\`.
    Text(&'static str),
    /// The value of a canonical key of the file (`rwkv.head_size`).
    Key(&'static str),
    /// The value of a key, or this number if the file does not have the key.
    KeyOr(&'static str, f64),
}

impl OptionDefault {
    /// As TOML; empty if there is no default.
    pub(crate) fn toml(self, ty: OptionType) -> String {
        match (self, ty) {
            (Self::Required | Self::Key(_), _) => String::new(),
            (Self::Number(number) | Self::KeyOr(_, number), OptionType::Count) => format!("{number:.0}"),
            (Self::Number(number) | Self::KeyOr(_, number), _) => format!("{number:?}"),
            (Self::Name(text) | Self::Text(text), _) => format!("\"{text}\""),
        }
    }

    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Key(key) | Self::KeyOr(key, _) => key,
            Self::Required | Self::Number(_) | Self::Name(_) | Self::Text(_) => "",
        }
    }
}

/// A type of options: numbers, texts, and lists of names made with [`names!`](crate::names!).
pub trait Value: Sized {
    /// The type of its values.
    const TYPE: OptionType;

    /// Reads it.
    ///
    /// # Errors
    /// A value that the host does not have, or that is invalid.
    fn read(build: &Build, option: &str) -> Result<Self>;
}

impl Value for u64 {
    const TYPE: OptionType = OptionType::Count;

    fn read(build: &Build, option: &str) -> Result<u64> {
        build.count(option)
    }
}

impl Value for usize {
    const TYPE: OptionType = OptionType::Count;

    fn read(build: &Build, option: &str) -> Result<usize> {
        let count = build.count(option)?;
        usize::try_from(count).map_err(|_| Error::new(format!("{option}: {count} is larger than memory")))
    }
}

impl Value for f64 {
    const TYPE: OptionType = OptionType::Real;

    fn read(build: &Build, option: &str) -> Result<f64> {
        build.real(option)
    }
}

impl Value for f32 {
    const TYPE: OptionType = OptionType::Real;

    fn read(build: &Build, option: &str) -> Result<f32> {
        Ok(build.real(option)? as f32)
    }
}

impl Value for String {
    const TYPE: OptionType = OptionType::Text;

    fn read(build: &Build, option: &str) -> Result<String> {
        Ok(build.name(option)?.to_owned())
    }
}

/// A name of an option's list.
///
/// # Errors
/// A name that the list does not have.
#[doc(hidden)]
pub fn name_of<'a>(build: &Build<'a>, option: &str, names: &[&str]) -> Result<&'a str> {
    let name = build.name(option)?;
    match names.contains(&name) {
        true => Ok(name),
        false => Err(Error::new(format!("{option}: expected one of {names:?}, found {name:?}"))),
    }
}

/// Checks the default of an option at compile time.
#[doc(hidden)]
pub const fn check_option(row: &OptionRow) {
    match (row.ty, row.default) {
        (_, OptionDefault::Required | OptionDefault::Key(_)) => {}
        (OptionType::Name(_), OptionDefault::Name(_))
        | (OptionType::Real, OptionDefault::Number(_) | OptionDefault::KeyOr(..)) => {}
        (OptionType::Count, OptionDefault::Number(number) | OptionDefault::KeyOr(_, number)) => {
            assert!(
                number >= 0.0 && number == (number as u64) as f64,
                "the default of a count must be a whole number"
            );
        }
        (OptionType::Text, OptionDefault::Text(text)) => check_text(text.as_bytes()),
        _ => {
            panic!("the default must have the type of the option: a number, a name or a text")
        }
    }
}

const fn check_text(text: &[u8]) {
    let mut at = 0;
    while at < text.len() {
        let good = text[at] != b'"' && text[at] != b'\\' && text[at] >= b' ';
        assert!(good, "the default of a text must not contain quotes, backslashes or control characters");
        at += 1;
    }
}

/// Declares the table of a component's options together with the struct of their values.
///
/// Per field: doc comment, `name: Type = Default`, and `=> guarded` if a wrong value only shows in the logits. Types are
/// those that implement [`Value`](crate::Value), defaults those of [`OptionDefault`](crate::OptionDefault).
///
/// ```
/// menagerie_plugin::options! {
///     /// Options of `time-mixing`.
///     pub struct TimeMixingOptions {
///         /// Elements of a head.
///         head_size: usize = KeyOr("wkv.head_size", 64.0),
///         /// Added to the variance of a head.
///         epsilon: f32 = Number(64e-5) => guarded,
///     }
/// }
/// ```
///
/// A default of another type does not compile:
///
/// ```compile_fail,E0080
/// menagerie_plugin::options! {
///     /// Options.
///     pub struct Wrong {
///         /// A count.
///         heads: usize = Number(0.5),
///     }
/// }
/// ```
#[macro_export]
macro_rules! options {
    (
        $(#[doc = $table_doc:literal])+
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $doc:literal])+
                $field:ident : $ty:ty = $default:expr $(=> $guard:ident)?
            ),* $(,)?
        }
    ) => {
        $(#[doc = $table_doc])+
        #[derive(Clone, Debug)]
        $vis struct $table {
            $($(#[doc = $doc])+ $vis $field: $ty,)*
        }

        impl $crate::Options for $table {
            const ROWS: &'static [$crate::OptionRow] = &[$({
                #[allow(unused_imports)]
                use $crate::OptionDefault::*;
                const ROW: $crate::OptionRow = $crate::OptionRow {
                    name: stringify!($field),
                    doc: concat!($($doc, "\n"),+),
                    ty: <$ty as $crate::Value>::TYPE,
                    default: $default,
                    guarded: $crate::options!(@guard $($guard)?),
                };
                const { $crate::check_option(&ROW) };
                ROW
            }),*];

            #[allow(unused_variables)]
            fn read(build: &$crate::Build) -> $crate::Result<Self> {
                $(let $field = <$ty as $crate::Value>::read(build, stringify!($field));)*
                Ok($table { $($field: $field?),* })
            }
        }
    };
    (@guard) => { false };
    (@guard guarded) => { true };
}

/// Declares a list of names as an enum, for an option.
///
/// ```
/// menagerie_plugin::names! {
///     /// How heads are joined.
///     pub enum Joining {
///         /// Their mean.
///         Mean = "mean",
///         /// The largest.
///         Largest = "largest",
///     }
/// }
/// ```
#[macro_export]
macro_rules! names {
    (
        $(#[doc = $list_doc:literal])+
        $vis:vis enum $list:ident {
            $(
                $(#[doc = $doc:literal])+
                $variant:ident = $name:literal
            ),+ $(,)?
        }
    ) => {
        $(#[doc = $list_doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $list {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl $crate::Value for $list {
            const TYPE: $crate::OptionType = $crate::OptionType::Name(&[$($name),+]);

            fn read(build: &$crate::Build, option: &str) -> $crate::Result<Self> {
                let names = [$($name),+];
                let variants = [$($list::$variant),+];
                let name = $crate::name_of(build, option, &names)?;
                let found = names.iter().zip(variants).find(|(known, _)| **known == name);
                found.map(|(_, variant)| variant).ok_or_else(|| $crate::Error::new(name))
            }
        }
    };
}
