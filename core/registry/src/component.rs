//! [`ComponentEntry`]: a kind and its factory, as a crate registers them; [`Components`]: the look-up.

use crate::error::RegistryError;
use crate::parts::{BuildResult, ComponentParts};
use menagerie_entries::{Entries, Entry};
use menagerie_model::components::RopeFrequencies;
use menagerie_model::{ElementWise, FeedForward, Norm, SequenceMixer};
use menagerie_spec::kind::{Component as Config, Definition, Family, Kind, Kinds};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The tensors and the rows of a norm.
#[derive(Clone, Copy, Debug)]
pub struct NormTarget<'a> {
    /// Role of its tensors.
    pub role: &'a str,
    /// Elements of the rows that it normalizes.
    pub width: usize,
}

/// A factory of mixers.
type MixerFactory =
    dyn Fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>> + Send + Sync;

/// A factory of feed-forwards.
type FeedForwardFactory =
    dyn Fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>> + Send + Sync;

/// A factory of norms.
type NormFactory =
    dyn Fn(&Config, &mut dyn ComponentParts, &NormTarget) -> BuildResult<Box<dyn Norm>> + Send + Sync;

/// A factory of activations.
type ActivationFactory =
    dyn Fn(&Config, &mut dyn ComponentParts) -> BuildResult<Arc<dyn ElementWise>> + Send + Sync;

/// A factory of the frequencies of ropes.
type RopeFactory =
    dyn Fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn RopeFrequencies>> + Send + Sync;

/// The factory of a kind; it lives as long as the process.
#[derive(Clone, Copy)]
pub enum ComponentFactory {
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

/// A kind and its factory, as a crate registers them with [`crate::component!`].
#[derive(Clone, Copy)]
pub struct ComponentEntry {
    /// The kind: its options, roles and keys.
    pub kind: &'static Kind,
    /// Its factory.
    pub factory: ComponentFactory,
    /// The crate, or the plugin, that registers it, for listings.
    pub registered_by: &'static str,
}

impl fmt::Debug for ComponentEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.kind, self.registered_by)
    }
}

impl Entry for ComponentEntry {
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

/// The config as the type of its kind. The factory was looked up by kind, so another type is a defect.
#[doc(hidden)]
pub fn config_of<'a, C: Definition>(
    config: &'a Config,
    parts: &mut dyn ComponentParts,
) -> BuildResult<&'a C> {
    config.downcast_ref::<C>().ok_or_else(|| {
        let name = config.kind().name;
        parts.fault(&format!(
            "the factory of kind `{name}` received a config of another kind (a defect: please report it)"
        ))
    })
}

/// Registers a component: `component!(FAMILY Config, build)`, where the family is `mixer`, `feed_forward`, `norm`,
/// `activation` or `rope`, and `build` is
///
/// | family | function |
/// |---|---|
/// | `mixer` | `fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn SequenceMixer>>` |
/// | `feed_forward` | `fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn FeedForward>>` |
/// | `norm` | `fn(&Config, &mut dyn ComponentParts, &NormTarget) -> BuildResult<Box<dyn Norm>>` |
/// | `activation` | `fn(&Config, &mut dyn ComponentParts) -> BuildResult<Arc<dyn ElementWise>>` |
/// | `rope` | `fn(&Config, &mut dyn ComponentParts) -> BuildResult<Box<dyn RopeFrequencies>>` |
#[macro_export]
macro_rules! component {
    (mixer $config:ty, $build:path) => {
        $crate::component!(@ $config, Mixer(&|config, parts| {
            let build: fn(&$config, &mut dyn $crate::ComponentParts) -> $crate::BuildResult<_> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (feed_forward $config:ty, $build:path) => {
        $crate::component!(@ $config, FeedForward(&|config, parts| {
            let build: fn(&$config, &mut dyn $crate::ComponentParts) -> $crate::BuildResult<_> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (norm $config:ty, $build:path) => {
        $crate::component!(@ $config, Norm(&|config, parts, place| {
            let build: fn(&$config, &mut dyn $crate::ComponentParts, &$crate::NormTarget) -> $crate::BuildResult<_> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts, place)
        }));
    };
    (activation $config:ty, $build:path) => {
        $crate::component!(@ $config, Activation(&|config, parts| {
            let build: fn(&$config, &mut dyn $crate::ComponentParts) -> $crate::BuildResult<_> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (rope $config:ty, $build:path) => {
        $crate::component!(@ $config, Rope(&|config, parts| {
            let build: fn(&$config, &mut dyn $crate::ComponentParts) -> $crate::BuildResult<_> = $build;
            build($crate::config_of::<$config>(config, parts)?, parts)
        }));
    };
    (@ $config:ty, $family:ident($build:expr)) => {
        $crate::register!($crate::ComponentEntry {
            kind: <$config as $crate::spec::kind::Definition>::KIND,
            factory: $crate::ComponentFactory::$family($build),
            registered_by: env!("CARGO_PKG_NAME"),
        });
    };
}

/// The components of an environment, by family and name.
#[derive(Clone, Debug, Default)]
pub struct Components {
    by_kind: BTreeMap<(Family, &'static str), ComponentEntry>,
}

impl Components {
    /// The components of these entries.
    ///
    /// # Errors
    /// [`RegistryError::KindFamily`] if the factory is of another family than its kind.
    pub fn of(entries: &Entries) -> Result<Self, RegistryError> {
        let mut by_kind: BTreeMap<(Family, &'static str), ComponentEntry> = BTreeMap::new();
        for component in entries.all::<ComponentEntry>() {
            let (family, name) = (component.kind.family, component.kind.name);
            if component.factory.family() != family {
                let crate_name = component.registered_by;
                return Err(RegistryError::KindFamily { family: family.name(), name, crate_name });
            }
            by_kind.insert((family, name), *component);
        }
        Ok(Self { by_kind })
    }

    /// The component of a kind.
    pub fn get(&self, kind: &Kind) -> Option<&ComponentEntry> {
        self.by_kind.get(&(kind.family, kind.name))
    }

    /// The components, ordered by family and name.
    pub fn iter(&self) -> impl Iterator<Item = &ComponentEntry> {
        self.by_kind.values()
    }

    /// The kinds that specs may name: those of the language and those of the registered components.
    ///
    /// # Errors
    /// [`RegistryError::Kinds`] if a crate registers a kind that the language already has.
    pub fn kinds(&self) -> Result<Kinds, RegistryError> {
        let kinds = self.iter().map(|component| component.kind);
        Kinds::built_in().with(kinds).map_err(RegistryError::Kinds)
    }
}

impl ComponentFactory {
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
