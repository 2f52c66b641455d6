//! [`Kind`]: one component kind of the language, defined completely by one table.
//!
//! Decoding, checks, nearest names, provenance, the reference page, the JSON Schema and synthetic models are derived
//! from these tables. A kind of another crate is written like the built-in ones (`kinds/`): a struct of options
//! ([`options!`](crate::options)), a config, and [`Definition`] for the config.
//!
//! ```
//! use menagerie_spec::kind::*;
//!
//! menagerie_spec::options! {
//!     /// Options of `tanh`.
//!     pub struct TanhOptions {
//!         /// Multiplies inside.
//!         alpha: f32 = Number(0.5) => guarded,
//!         /// Channels; without it, what the file says.
//!         channels: Positive<usize> = Key("tanh.channels"),
//!     }
//! }
//!
//! /// Dynamic tanh (Zhu et al., 2025).
//! #[derive(Clone, Debug, PartialEq, serde::Serialize)]
//! pub struct TanhConfig {
//!     alpha: f32,
//!     channels: usize,
//! }
//!
//! impl Definition for TanhConfig {
//!     type Options = TanhOptions;
//!     const FAMILY: Family = Family::Norm;
//!     const NAME: &'static str = "tanh";
//!     const DOC: &'static str = "Dynamic tanh (Zhu et al., 2025).";
//!     const ROLES: &'static [RoleDef] = &[RoleDef::values("", &["width"], "Multiplies the row.")];
//!
//!     fn resolve(options: TanhOptions, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault> {
//!         let TanhOptions { alpha, channels: Positive(channels) } = options;
//!         if alpha <= 0.0 {
//!             return at.fault("alpha", format!("{alpha}; expected a positive number"));
//!         }
//!         Ok(TanhConfig { alpha, channels })
//!     }
//!
//!     fn sizes(&self, into: &mut Sizes) {
//!         into.set("channels", self.channels);
//!     }
//! }
//!
//! let kinds = Kinds::built_in().with([TanhConfig::KIND]).unwrap();
//! assert!(kinds.find(Family::Norm, "tanh").is_some());
//! ```
//!
//! An option in the table that `resolve` does not use is a compile error:
//!
//! ```compile_fail,E0027
//! use menagerie_spec::kind::*;
//!
//! menagerie_spec::options! {
//!     /// Options of `tanh`.
//!     pub struct TanhOptions {
//!         /// Multiplies inside.
//!         alpha: f32 = Number(0.5),
//!         /// Nobody reads it.
//!         forgotten: f32 = Number(0.0),
//!     }
//! }
//!
//! fn resolve(options: TanhOptions) -> f32 {
//!     let TanhOptions { alpha } = options;
//!     alpha
//! }
//! ```

mod check;
mod component;
mod context;
pub(crate) mod formulas;
mod kinds;
mod made;
mod name_list;
mod option_resolver;
mod options;
mod role;
mod site;
mod sizes;
mod table;
mod value;
pub(crate) mod written;

pub use component::{Component, ComponentConfig};
pub use context::ResolveContext;
pub use kinds::{Kinds, KindsError};
pub use made::{BIAS_IF_PRESENT, BIAS_REQUIRED, MadeConfig, MadeKind, OptionValue};
pub use name_list::{NameDef, NameEnum, NameList};
pub(crate) use option_resolver::{OptionRecord, OptionResolver};
pub use options::Options;
pub use role::{Bits, FreeSize, RoleDef, Scope, TensorKind};
pub use site::{BiasRule, NormSite, Role};
pub use sizes::{Dim, Sizes, StoredTensor, WantedRole};
pub use table::{Field, FieldDefault, FieldType, Table};
pub use value::{
    Cap, InnerMixer, InnerRope, Lazy, Nested, NormHere, NotBuiltIn, OneOrEach, Optional, OptionalNorm,
    Positive, Value,
};

pub use crate::text::fault::RecordedFault;

use std::any::TypeId;
use std::fmt;

/// The purpose of a component: where in a spec it is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// Mixes tokens: `[mixer]`.
    Mixer,
    /// Transforms each token: `[feed_forward]`.
    FeedForward,
    /// A norm: `[norm]`, sites, norms inside components.
    Norm,
    /// An elementwise activation, in addition to the built-in ones.
    Activation,
    /// The frequencies of a rope.
    Rope,
}

impl Family {
    /// Every family, in the order they are shown.
    pub const ALL: [Family; 5] =
        [Family::Norm, Family::Mixer, Family::FeedForward, Family::Activation, Family::Rope];

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Family::Mixer => "mixer",
            Family::FeedForward => "feed-forward",
            Family::Norm => "norm",
            Family::Activation => "activation",
            Family::Rope => "rope",
        }
    }
}

/// The result of resolving a component of a kind.
#[derive(Clone, Copy)]
pub(crate) enum Resolve {
    /// A config.
    Config(fn(&mut ResolveContext<'_>) -> Result<Component, RecordedFault>),
    /// No component in this layer.
    Nothing,
    /// The language knows the kind; this build does not support it.
    NotBuiltIn,
}

/// A component kind: its options, tensors and keys, and how its config is made.
pub struct Kind {
    /// Its family.
    pub family: Family,
    /// Its name in `kind = ".."`.
    pub name: &'static str,
    /// What it is, with the source of its formula.
    pub doc: &'static str,
    /// Its options.
    pub options: &'static Table,
    /// Its possible tensors.
    pub roles: &'static [RoleDef],
    /// Sizes that only the shapes of a file determine.
    pub free: &'static [FreeSize],
    /// Canonical keys that it reads, besides the defaults of its options.
    pub reads: &'static [&'static str],
    pub(crate) resolve: Resolve,
    pub(crate) sizes: Option<fn(&Component, &mut Sizes)>,
    pub(crate) regime_limit: Option<fn(&Component) -> Option<usize>>,
    pub(crate) parts: Option<fn(&Component) -> Vec<&Component>>,
    /// The type of its config.
    config: Option<fn() -> TypeId>,
}

impl Kind {
    /// The kind that a config type defines.
    pub const fn of<D: Definition>() -> Kind {
        Kind {
            family: D::FAMILY,
            name: D::NAME,
            doc: D::DOC,
            options: <D::Options as Options>::TABLE,
            roles: D::ROLES,
            free: D::FREE,
            reads: D::READS,
            resolve: Resolve::Config(resolve::<D>),
            sizes: Some(sizes::<D>),
            regime_limit: Some(regime_limit::<D>),
            parts: Some(parts::<D>),
            config: Some(TypeId::of::<D>),
        }
    }

    /// A kind whose specs can be checked and whose models cannot be run: its options are known, its config is not
    /// implemented.
    pub const fn not_built_in(
        family: Family,
        name: &'static str,
        doc: &'static str,
        options: &'static Table,
        reads: &'static [&'static str],
    ) -> Kind {
        Kind {
            family,
            name,
            doc,
            options,
            roles: &[],
            free: &[],
            reads,
            resolve: Resolve::NotBuiltIn,
            sizes: None,
            regime_limit: None,
            parts: None,
            config: None,
        }
    }

    /// A kind that means no component in this layer.
    pub(crate) const fn nothing(
        family: Family,
        name: &'static str,
        doc: &'static str,
        options: &'static Table,
    ) -> Kind {
        Kind {
            family,
            name,
            doc,
            options,
            roles: &[],
            free: &[],
            reads: &[],
            resolve: Resolve::Nothing,
            sizes: None,
            regime_limit: None,
            parts: None,
            config: None,
        }
    }

    /// Whether this build supports it.
    pub fn is_built_in(&self) -> bool {
        !matches!(self.resolve, Resolve::NotBuiltIn)
    }

    /// Whether another value is the same kind: the same config type.
    pub(crate) fn is_same(&self, other: &Kind) -> bool {
        // Kinds that are created at run time share a config type; each has its own table.
        let made = |kind: &Kind| kind.config.is_some_and(|config| config() == TypeId::of::<MadeConfig>());
        let config = |kind: &Kind| kind.config.map(|config| config());
        self == other && config(self) == config(other) && (!made(self) || std::ptr::eq(self, other))
    }
}

impl PartialEq for Kind {
    /// Families and names are unique within [`Kinds`].
    fn eq(&self, other: &Kind) -> bool {
        self.family == other.family && self.name == other.name
    }
}

impl Eq for Kind {}

impl fmt::Debug for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} `{}`", self.family.name(), self.name)
    }
}

/// Implemented by the config type of a kind: the kind's table, and how the config is made from decoded options.
pub trait Definition: ComponentConfig + Clone + PartialEq + serde::Serialize + Sized {
    /// Its options, as [`options!`](crate::options) declares them.
    type Options: Options;
    /// Its family.
    const FAMILY: Family;
    /// Its name in `kind = ".."`.
    const NAME: &'static str;
    /// What it is, with the source of its formula.
    const DOC: &'static str;
    /// Its possible tensors.
    const ROLES: &'static [RoleDef] = &[];
    /// Symbols in the dims of its tensors that only the shapes of a file give.
    const FREE: &'static [FreeSize] = &[];
    /// Canonical keys that it reads, besides the defaults of its options.
    const READS: &'static [&'static str] = &[];
    /// The kind itself: the value that is registered, and that a [`Component`] refers to.
    const KIND: &'static Kind = &Kind::of::<Self>();

    /// The config of one layer. Destructure `options` without `..`, so that an unused option does not compile.
    ///
    /// # Errors
    /// A fault was recorded.
    fn resolve(options: Self::Options, at: &mut ResolveContext<'_>) -> Result<Self, RecordedFault>;

    /// Values of the symbols, conditions, bias rules and role names in [`Definition::ROLES`].
    fn sizes(&self, into: &mut Sizes);

    /// The sequence length up to which the short rope regime applies (LongRoPE, Ding et al., 2024); a longer sequence
    /// is recomputed in the long one. Absent with a single regime.
    fn regime_limit(&self) -> Option<usize> {
        None
    }

    /// The components inside it, whose tensors are in the same place as its own.
    fn parts(&self) -> Vec<&Component> {
        Vec::new()
    }
}

fn resolve<D: Definition>(at: &mut ResolveContext<'_>) -> Result<Component, RecordedFault> {
    let options = D::Options::read(at)?;
    D::resolve(options, at).map(Component::new)
}

fn sizes<D: Definition>(component: &Component, into: &mut Sizes) {
    if let Some(config) = component.downcast_ref::<D>() {
        config.sizes(into);
    }
}

fn regime_limit<D: Definition>(component: &Component) -> Option<usize> {
    component.downcast_ref::<D>().and_then(D::regime_limit)
}

fn parts<D: Definition>(component: &Component) -> Vec<&Component> {
    component.downcast_ref::<D>().map_or_else(Vec::new, D::parts)
}
