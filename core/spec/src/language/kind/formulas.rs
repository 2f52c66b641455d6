//! The lists of `menagerie-formulas` as lists of names in specs.

use super::{FieldType, NameDef, NameEnum, NameList, RecordedFault, ResolveContext, Table, Value};
use menagerie_formulas as formulas;
use serde::Serializer;

/// The names of a list of formulas as a [`NameList`].
pub(crate) const fn definitions<const N: usize>(names: &'static [formulas::Name]) -> [NameDef; N] {
    let mut list = [const { NameDef { name: "", doc: "", reads: &[], numbers: None } }; N];
    let mut at = 0;
    while at < N {
        list[at] = NameDef { name: names[at].name, doc: names[at].doc, reads: &[], numbers: None };
        at += 1;
    }
    list
}

/// The same list, with numbers for one name. An unknown name does not compile.
pub(crate) const fn with_numbers<const N: usize>(
    mut list: [NameDef; N],
    name: &str,
    numbers: &'static Table,
) -> [NameDef; N] {
    let mut at = 0;
    while !equal(list[at].name, name) {
        at += 1;
    }
    list[at].numbers = Some(numbers);
    list
}

const fn equal(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    let mut at = 0;
    while at < a.len() && at < b.len() && a[at] == b[at] {
        at += 1;
    }
    at == a.len() && at == b.len()
}

/// Implements the traits of name lists for lists of formulas.
macro_rules! formulas {
    ($($list:ident),+ $(,)?) => {$(
        impl NameEnum for formulas::$list {
            const LIST: &'static NameList = &NameList {
                title: formulas::$list::TITLE,
                doc: formulas::$list::DOC,
                names: &definitions::<{ formulas::$list::NAMES.len() }>(formulas::$list::NAMES),
            };
            const VALUES: &'static [Self] = formulas::$list::ALL;
        }

        impl Value for formulas::$list {
            const TYPE: FieldType = FieldType::Name(<Self as NameEnum>::LIST);

            fn read(at: &mut ResolveContext<'_>, index: usize) -> Result<Self, RecordedFault> {
                at.named(index)
            }
        }
    )+};
}

formulas! {
    BranchInput, ClassifierActivation, ClassifierScores, GroupScore, HeldStream, HiddenRow, JoinOrder, KeySharing, ParallelInput,
    Pooling, RopePairs, RouterApply, RouterInput, RouterSelect, RouterWeights,
}

/// Serializes a formula as its name.
pub(crate) fn as_name<T: NameEnum + PartialEq, S: Serializer>(formula: &T, to: S) -> Result<S::Ok, S::Error> {
    let place = T::VALUES.iter().position(|value| value == formula);
    let name = place.and_then(|place| T::LIST.names.get(place)).map_or("", |def| def.name);
    to.serialize_str(name)
}
