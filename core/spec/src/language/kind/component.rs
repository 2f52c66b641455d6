//! [`Component`]: a resolved component, of a built-in kind or of a kind of another crate or plugin.

use super::{Definition, Kind, MadeConfig, Sizes, WantedRole};
use std::any::Any;
use std::fmt;

/// The config of a [`Component`]: any plain struct. Implemented for all of them.
pub trait ComponentConfig: Any + fmt::Debug + Send + Sync {
    /// Itself, to be downcast.
    fn as_any(&self) -> &dyn Any;
    /// A copy.
    fn boxed_clone(&self) -> Box<dyn ComponentConfig>;
    /// Whether another config is of the same type and equal.
    fn equals(&self, other: &dyn ComponentConfig) -> bool;
    /// Its fields, for reports.
    fn json(&self) -> serde_json::Value;
}

impl<T> ComponentConfig for T
where
    T: Any + Clone + PartialEq + fmt::Debug + serde::Serialize + Send + Sync,
{
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn boxed_clone(&self) -> Box<dyn ComponentConfig> {
        Box::new(self.clone())
    }

    fn equals(&self, other: &dyn ComponentConfig) -> bool {
        other.as_any().downcast_ref::<T>().is_some_and(|other| self == other)
    }

    fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or(serde_json::Value::Null)
    }
}

/// A component of one layer: its kind, and the kind's resolved config.
pub struct Component {
    kind: &'static Kind,
    config: Box<dyn ComponentConfig>,
}

impl Component {
    /// A component of the kind that its config defines.
    pub fn new<D: Definition>(config: D) -> Component {
        Component { kind: D::KIND, config: Box::new(config) }
    }

    /// A component of a kind that was created at run time.
    pub(super) fn made(kind: &'static Kind, config: MadeConfig) -> Component {
        Component { kind, config: Box::new(config) }
    }

    /// The values of its options, if its kind was created at run time.
    pub fn as_made(&self) -> Option<&MadeConfig> {
        self.config_ref()
    }

    /// Its config, if it is of this type.
    pub(super) fn config_ref<T: 'static>(&self) -> Option<&T> {
        (*self.config).as_any().downcast_ref()
    }

    /// Its kind.
    pub fn kind(&self) -> &'static Kind {
        self.kind
    }

    /// Its config, if it is of this type.
    pub fn downcast_ref<D: Definition>(&self) -> Option<&D> {
        self.config_ref()
    }

    /// A copy with a changed config, for tests and recipes.
    pub fn map<D: Definition>(&self, change: impl FnOnce(&mut D)) -> Option<Component> {
        let mut config = self.downcast_ref::<D>()?.clone();
        change(&mut config);
        Some(Component::new(config))
    }

    /// Values of the symbols in its kind's roles.
    pub fn sizes(&self) -> Sizes {
        let mut sizes = Sizes::default();
        if let Some(fill) = self.kind.sizes {
            fill(self, &mut sizes);
        }
        sizes
    }

    /// The sequence length up to which the short rope regime applies: see [`Definition::regime_limit`].
    pub fn regime_limit(&self) -> Option<usize> {
        let own = self.kind.regime_limit.and_then(|limit| limit(self));
        self.parts().into_iter().filter_map(Component::regime_limit).chain(own).min()
    }

    /// The components inside it: see [`Definition::parts`].
    pub fn parts(&self) -> Vec<&Component> {
        self.kind.parts.map_or_else(Vec::new, |parts| parts(self))
    }

    /// The tensors that it needs in a model of this width: the rows of its kind's table that its config selects, in
    /// the order of the table, every form of a group, and those of its parts.
    pub fn wanted(&self, width: usize) -> Vec<WantedRole> {
        let mut sizes = self.sizes();
        sizes.set("D", width);
        let own = sizes.wanted(self.kind.roles);
        own.into_iter().chain(self.parts().into_iter().flat_map(|part| part.wanted(width))).collect()
    }

    /// The tensors that a norm needs at a role, for rows of this width.
    pub fn wanted_norm(&self, role: &str, width: usize) -> Vec<WantedRole> {
        let mut sizes = self.sizes();
        sizes.set("width", width);
        let mut wanted = sizes.wanted(self.kind.roles);
        wanted.iter_mut().for_each(|wanted| wanted.role = role.to_string());
        wanted
    }
}

impl Clone for Component {
    fn clone(&self) -> Component {
        Component { kind: self.kind, config: self.config.boxed_clone() }
    }
}

impl PartialEq for Component {
    fn eq(&self, other: &Component) -> bool {
        self.kind == other.kind && self.config.equals(&*other.config)
    }
}

impl fmt::Debug for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.config)
    }
}

impl serde::Serialize for Component {
    /// The config's fields, `kind` first.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serde_json::Map::new();
        fields.insert("kind".into(), self.kind.name.into());
        if let serde_json::Value::Object(own) = self.config.json() {
            fields.extend(own);
        }
        fields.serialize(serializer)
    }
}

impl<D: Definition> From<D> for Component {
    fn from(config: D) -> Component {
        Component::new(config)
    }
}
