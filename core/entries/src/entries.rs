//! [`Entries`]: a set of entries, looked up by type and name.

use crate::entry::Entry;
use std::any::{Any, TypeId};
use std::collections::BTreeMap;
use std::fmt;

/// Two entries of one family have one name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{family} `{name}` is registered twice, by {first} and by {second}; link or load only one of them")]
pub struct DuplicateName {
    /// The family, with the scope in front of it where it has scopes: `sampler`, `norm kind`.
    pub family: String,
    /// The name.
    pub name: String,
    /// The origin of the first entry.
    pub first: String,
    /// The origin of the second entry.
    pub second: String,
}

impl DuplicateName {
    /// The error for two entries of one family.
    fn of<T: Entry>(first: &T, second: &T) -> Self {
        let family = match second.scope() {
            "" => T::FAMILY.to_owned(),
            scope => format!("{scope} {}", T::FAMILY),
        };
        Self {
            family,
            name: second.name().to_owned(),
            first: first.registered_by().to_owned(),
            second: second.registered_by().to_owned(),
        }
    }
}

/// A set of entries of any number of families. Names are unique within a family and its scope.
#[derive(Clone, Default)]
pub struct Entries {
    families: BTreeMap<TypeId, Box<dyn AnyEntryList>>,
}

/// The entries of one type, in the order in which they were added.
#[derive(Clone)]
struct EntryList<T>(Vec<T>);

/// A [`EntryList`] of any type.
trait AnyEntryList: Send + Sync {
    fn as_any(&self) -> &dyn Any;

    fn as_any_mut(&mut self) -> &mut dyn Any;

    fn boxed(&self) -> Box<dyn AnyEntryList>;

    /// Adds its entries to a set.
    fn add_to(&self, entries: &mut Entries) -> Result<(), DuplicateName>;

    /// Orders its entries by scope and name.
    fn sort(&mut self);

    /// The family, and the names of its entries.
    fn listing(&self) -> (&'static str, Vec<&str>);
}

impl<T: Entry> AnyEntryList for EntryList<T> {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn boxed(&self) -> Box<dyn AnyEntryList> {
        Box::new(self.clone())
    }

    fn add_to(&self, entries: &mut Entries) -> Result<(), DuplicateName> {
        self.0.iter().try_for_each(|entry| entries.add(entry.clone()))
    }

    fn sort(&mut self) {
        self.0.sort_by(|a, b| (a.scope(), a.name()).cmp(&(b.scope(), b.name())));
    }

    fn listing(&self) -> (&'static str, Vec<&str>) {
        (T::FAMILY, self.0.iter().map(Entry::name).collect())
    }
}

impl Clone for Box<dyn AnyEntryList> {
    fn clone(&self) -> Self {
        self.as_ref().boxed()
    }
}

impl Entries {
    /// Adds an entry.
    ///
    /// # Errors
    /// An entry of its family and scope has its name; then the set is as before.
    pub fn add<T: Entry>(&mut self, entry: T) -> Result<(), DuplicateName> {
        let same = |first: &&T| (first.scope(), first.name()) == (entry.scope(), entry.name());
        if let Some(first) = self.all::<T>().iter().find(same) {
            return Err(DuplicateName::of(first, &entry));
        }
        let family =
            self.families.entry(TypeId::of::<T>()).or_insert_with(|| Box::new(EntryList::<T>(Vec::new())));
        if let Some(EntryList(known)) = family.as_any_mut().downcast_mut::<EntryList<T>>() {
            known.push(entry);
        }
        Ok(())
    }

    /// The entries of both sets, those of `self` first.
    ///
    /// # Errors
    /// A name that both sets have in one family and scope.
    pub fn with(&self, others: &Entries) -> Result<Self, DuplicateName> {
        let mut together = self.clone();
        others.families.values().try_for_each(|family| family.add_to(&mut together))?;
        Ok(together)
    }

    /// The entries of a type, in the order in which they were added.
    pub fn all<T: Entry>(&self) -> &[T] {
        let family = self.families.get(&TypeId::of::<T>());
        family
            .and_then(|family| family.as_any().downcast_ref::<EntryList<T>>())
            .map_or(&[], |family| &family.0)
    }

    /// The first entry of a type with this name, in any scope.
    pub fn get<T: Entry>(&self, name: &str) -> Option<&T> {
        self.all::<T>().iter().find(|entry| entry.name() == name)
    }

    /// Orders every family by scope and name.
    pub(crate) fn sort(&mut self) {
        self.families.values_mut().for_each(|family| family.sort());
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let listings: BTreeMap<_, _> = self.families.values().map(|family| family.listing()).collect();
        f.debug_map().entries(listings).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq)]
    struct Color(&'static str, &'static str);

    impl Entry for Color {
        const FAMILY: &'static str = "color";

        fn name(&self) -> &str {
            self.0
        }

        fn registered_by(&self) -> &str {
            self.1
        }
    }

    #[derive(Clone, Debug, PartialEq)]
    struct Part(&'static str, &'static str);

    impl Entry for Part {
        const FAMILY: &'static str = "part";

        fn name(&self) -> &str {
            self.1
        }

        fn registered_by(&self) -> &str {
            "these tests"
        }

        fn scope(&self) -> &str {
            self.0
        }
    }

    #[test]
    fn families_are_separate_and_ordered() {
        let mut entries = Entries::default();
        entries.add(Color("red", "a")).unwrap();
        entries.add(Color("blue", "b")).unwrap();
        entries.add(Part("left", "red")).unwrap();
        assert_eq!(entries.all::<Color>(), [Color("red", "a"), Color("blue", "b")]);
        assert_eq!(entries.get::<Color>("blue"), Some(&Color("blue", "b")));
        assert_eq!(entries.get::<Part>("blue"), None);
        assert_eq!(format!("{entries:?}"), r#"{"color": ["red", "blue"], "part": ["red"]}"#);
        entries.sort();
        assert_eq!(entries.all::<Color>(), [Color("blue", "b"), Color("red", "a")]);
    }

    #[test]
    fn a_name_is_unique_within_its_scope() {
        let mut entries = Entries::default();
        entries.add(Part("left", "wheel")).unwrap();
        entries.add(Part("right", "wheel")).unwrap();
        let error = entries.add(Part("left", "wheel")).unwrap_err();
        assert_eq!((&*error.family, &*error.name), ("left part", "wheel"));
        assert_eq!(entries.all::<Part>().len(), 2);
    }

    #[test]
    fn a_set_is_added_whole_or_not_at_all() {
        let (mut first, mut second) = (Entries::default(), Entries::default());
        first.add(Color("red", "one crate")).unwrap();
        second.add(Color("green", "another crate")).unwrap();
        second.add(Color("red", "another crate")).unwrap();
        let error = first.with(&second).unwrap_err().to_string();
        let expected = "color `red` is registered twice, by one crate and by another crate; link or load only one of them";
        assert_eq!(error, expected);
        assert_eq!(first.all::<Color>(), [Color("red", "one crate")]);
        let mut third = Entries::default();
        third.add(Color("green", "another crate")).unwrap();
        assert_eq!(first.with(&third).unwrap().all::<Color>().len(), 2);
    }
}
