//! [`Component`], what a crate registers for a kind, and [`Components`], the look-up.

use crate::error::RegistryError;
use crate::parts::Parts;
use menagerie_entries::{Entries, Entry};
use menagerie_model::components::RopeFrequencies;
use menagerie_model::{ElementWise, FeedForward, Norm, SequenceMixer};
use menagerie_spec::kind::{Component as Config, Definition, Family, Kind, Kinds};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Makes a mixer from its config; `None` has noted a fault.
pub type BuildMixer<C> = fn(&C, &mut dyn Parts) -> Option<Box<dyn SequenceMixer>>;

/// Makes a feed-forward from its config; `None` has noted a fault.
pub type BuildFeedForward<C> = fn(&C, &mut dyn Parts) -> Option<Box<dyn FeedForward>>;

/// Makes a norm from its config, with its tensors at a role, over rows of a width; `None` has noted a fault.
pub type BuildNorm<C> = fn(&C, &mut dyn Parts, &NormPlace) -> Option<Box<dyn Norm>>;

/// Makes an activation from its config; `None` has noted a fault.
pub type BuildActivation<C> = fn(&C, &mut dyn Parts) -> Option<Arc<dyn ElementWise>>;

/// Makes what gives the frequencies of a rope from its config; `None` has noted a fault.
pub type BuildRope<C> = fn(&C, &mut dyn Parts) -> Option<Box<dyn RopeFrequencies>>;

/// Where a norm stands.
#[derive(Clone, Copy, Debug)]
pub struct NormPlace<'a> {
    /// Role of its tensors.
    pub role: &'a str,
    /// Elements of the rows it norms.
    pub width: usize,
}

/// A factory of mixers; `None` has noted a fault.
pub type MixerFactory = dyn Fn(&Config, &mut dyn Parts) -> Option<Box<dyn SequenceMixer>> + Send + Sync;

/// A factory of feed-forwards; `None` has noted a fault.
pub type FeedForwardFactory = dyn Fn(&Config, &mut dyn Parts) -> Option<Box<dyn FeedForward>> + Send + Sync;

/// A factory of norms; `None` has noted a fault.
pub type NormFactory = dyn Fn(&Config, &mut dyn Parts, &NormPlace) -> Option<Box<dyn Norm>> + Send + Sync;

/// A factory of activations; `None` has noted a fault.
pub type ActivationFactory = dyn Fn(&Config, &mut dyn Parts) -> Option<Arc<dyn ElementWise>> + Send + Sync;

/// A factory of what gives a rope's frequencies; `None` has noted a fault.
pub type RopeFactory = dyn Fn(&Config, &mut dyn Parts) -> Option<Box<dyn RopeFrequencies>> + Send + Sync;

/// How a component of a kind is made: by a factory that lasts as long as the process.
#[derive(Clone, Copy)]
pub enum Build {
    /// A mixer.
    Mixer(&'static MixerFactory),
    /// A feed-forward.
    FeedForward(&'static FeedForwardFactory),
    /// A norm.
    Norm(&'static NormFactory),
    /// An activation.
    Activation(&'static ActivationFactory),
    /// The frequencies of a rope.
    Rope(&'static RopeFactory),
}

/// A kind and how it is made, as a crate registers it with [`crate::component!`].
#[derive(Clone, Copy)]
pub struct Component {
    /// The kind: its options, roles and keys.
    pub kind: &'static Kind,
    /// How it is made.
    pub build: Build,
    /// The crate, or the plugin, that registers it, for listings.
    pub registered_by: &'static str,
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.kind, self.registered_by)
    }
}

impl Entry for Component {
    const FAMILY: &'static str = "kind";

    fn name(&self) -> &str {
        self.kind.name
    }

    fn registered_by(&self) -> &str {
        self.registered_by
    }

    fn scope(&self) -> &str {
        self.kind.family.name()
    }
}

/// The config of a component of kind `C`; a look-up by kind has chosen the factory, so another one is a defect of it.
pub fn config_of<'a, C: Definition>(config: &'a Config, parts: &mut dyn Parts) -> Option<&'a C> {
    let found = config.downcast_ref::<C>();
    if found.is_none() {
        parts.fault(&format!(
            "the factory of kind `{}` was given a config of another kind (a defect: please report it)",
            config.kind().name
        ));
    }
    found
}

/// Registers a component: `component!(mixer AttentionConfig, build)`, `component!(feed_forward ..)`,
/// `component!(norm ..)`, `component!(activation ..)`, `component!(rope ..)`, where `build` is a [`BuildMixer`],
/// [`BuildFeedForward`], [`BuildNorm`], [`BuildActivation`] or [`BuildRope`] of the config's type.
#[macro_export]
macro_rules! component {
    (mixer $config:ty, $build:path) => {
        $crate::component!(@ $config, Mixer(&|config, parts| {
            let build: $crate::BuildMixer<$config> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (feed_forward $config:ty, $build:path) => {
        $crate::component!(@ $config, FeedForward(&|config, parts| {
            let build: $crate::BuildFeedForward<$config> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (norm $config:ty, $build:path) => {
        $crate::component!(@ $config, Norm(&|config, parts, place| {
            let build: $crate::BuildNorm<$config> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts, place)
        }));
    };
    (activation $config:ty, $build:path) => {
        $crate::component!(@ $config, Activation(&|config, parts| {
            let build: $crate::BuildActivation<$config> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (rope $config:ty, $build:path) => {
        $crate::component!(@ $config, Rope(&|config, parts| {
            let build: $crate::BuildRope<$config> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (@ $config:ty, $family:ident($build:expr)) => {
        $crate::register!($crate::Component {
            kind: <$config as $crate::spec::kind::Definition>::KIND,
            build: $crate::Build::$family($build),
            registered_by: env!("CARGO_PKG_NAME"),
        });
    };
}

/// The components of an environment, by family and name.
#[derive(Clone, Debug, Default)]
pub struct Components {
    by_kind: BTreeMap<(Family, &'static str), Component>,
}

impl Components {
    /// The components of these entries.
    ///
    /// # Errors
    /// [`RegistryError::KindFamily`] if a factory does not make what its kind is.
    pub fn of(entries: &Entries) -> Result<Self, RegistryError> {
        let mut by_kind: BTreeMap<(Family, &'static str), Component> = BTreeMap::new();
        for component in entries.all::<Component>() {
            let (family, name) = (component.kind.family, component.kind.name);
            if component.build.family() != family {
                let crate_name = component.registered_by;
                return Err(RegistryError::KindFamily { family: family.name(), name, crate_name });
            }
            by_kind.insert((family, name), *component);
        }
        Ok(Self { by_kind })
    }

    /// The component of a kind.
    pub fn get(&self, kind: &Kind) -> Option<&Component> {
        self.by_kind.get(&(kind.family, kind.name))
    }

    /// The components, ordered by family and name.
    pub fn iter(&self) -> impl Iterator<Item = &Component> {
        self.by_kind.values()
    }

    /// The kinds that specs may name: those of the language and those of the components.
    ///
    /// # Errors
    /// [`RegistryError::Kinds`] if the kind of a crate has the name of a kind of the language.
    pub fn kinds(&self) -> Result<Kinds, RegistryError> {
        let kinds = self.iter().map(|component| component.kind);
        Kinds::built_in().with(kinds).map_err(RegistryError::Kinds)
    }
}

impl Build {
    fn family(self) -> Family {
        match self {
            Self::Mixer(_) => Family::Mixer,
            Self::FeedForward(_) => Family::FeedForward,
            Self::Norm(_) => Family::Norm,
            Self::Activation(_) => Family::Activation,
            Self::Rope(_) => Family::Rope,
        }
    }
}
