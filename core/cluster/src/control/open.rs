//! [`OpenRequest`]: a head asks a stage to be a member of its pipeline.

use super::PROTOCOL;
use menagerie_stages::{Identity, StageName};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most stages of a pipeline.
const MOST_STAGES: usize = 1024;

/// Most credits of a link.
const MOST_CREDITS: usize = 64;

/// A head asks a stage to be a member of its pipeline. It names no files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OpenRequest {
    pub(crate) protocol: u32,
    /// The epoch of the pipeline, new at every opening.
    pub(crate) epoch: String,
    /// The head, for messages.
    pub(crate) head: String,
    /// The index of the stage.
    pub(crate) index: usize,
    /// First layer and end of every stage, in order.
    pub(crate) stages: Vec<[u32; 2]>,
    /// Most unacknowledged frames on a link.
    pub(crate) credits: usize,
    /// What the stage must have in common with the head, by name.
    pub(crate) identity: BTreeMap<String, String>,
    /// The plugins of the head.
    pub(crate) plugins: Vec<String>,
}

impl OpenRequest {
    /// Checks every field before it is used.
    pub(crate) fn check(&self, layers: [usize; 2]) -> Result<(), String> {
        if self.protocol != PROTOCOL {
            return Err(format!(
                "its protocol is version {}, here it is {PROTOCOL}: run the same version of menagerie on all machines",
                self.protocol
            ));
        }
        let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if self.epoch.is_empty() || self.epoch.len() > 16 || !is_hex(&self.epoch) {
            return Err(format!("its epoch is invalid: {:?}", self.epoch));
        }
        if self.stages.is_empty() || self.stages.len() > MOST_STAGES {
            return Err(format!("it names {} stages, expected 1 to {MOST_STAGES}", self.stages.len()));
        }
        if !(1..=MOST_CREDITS).contains(&self.credits) {
            return Err(format!("it allows {} frames on a link, expected 1 to {MOST_CREDITS}", self.credits));
        }
        let own = self.stages.get(self.index).map(|own| own.map(|layer| layer as usize));
        if own != Some(layers) {
            let [first, end] = layers;
            return Err(format!(
                "it asks for layers {own:?} as stage {}, but this stage has layers {first} to {}",
                self.index,
                end.saturating_sub(1)
            ));
        }
        Ok(())
    }

    /// The names of all stages.
    pub(crate) fn names(&self) -> Vec<StageName> {
        let name = |(index, [first, end]): (usize, &[u32; 2])| StageName {
            index: index as u16,
            first: *first,
            end: *end,
        };
        self.stages.iter().enumerate().map(name).collect()
    }
}

/// The fields of an identity by name.
pub(crate) fn fields_of(identity: &Identity) -> BTreeMap<String, String> {
    identity.fields().into_iter().map(|(name, text)| (name.to_owned(), text.clone())).collect()
}

/// Every difference between a stage and a head, as text.
pub(crate) fn differences(
    (stage, of_stage): (&BTreeMap<String, String>, &[String]),
    (head, of_head): (&BTreeMap<String, String>, &[String]),
) -> Vec<String> {
    let none = String::new();
    let text = |text: &String| if text.is_empty() { "nothing".to_owned() } else { text.clone() };
    let mut found = Vec::new();
    for name in head.keys().chain(stage.keys().filter(|name| !head.contains_key(*name))) {
        let [of_stage, of_head] = [stage, head].map(|all| all.get(name).unwrap_or(&none));
        if of_stage != of_head {
            found.push(format!("{name}: the stage has {}, the head has {}", text(of_stage), text(of_head)));
        }
    }
    if of_stage != of_head {
        let [of_stage, of_head] = [of_stage, of_head].map(|names| text(&names.join(", ")));
        found.push(format!("plugins: the stage has {of_stage}, the head has {of_head}"));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> OpenRequest {
        OpenRequest {
            protocol: PROTOCOL,
            epoch: "1f".to_owned(),
            head: String::new(),
            index: 1,
            stages: vec![[0, 2], [2, 3]],
            credits: 3,
            identity: BTreeMap::new(),
            plugins: Vec::new(),
        }
    }

    #[test]
    fn every_field_of_a_request_is_checked() {
        request().check([2, 3]).unwrap();
        assert_eq!(request().names()[1], StageName { index: 1, first: 2, end: 3 });
        let wrong = [
            OpenRequest { protocol: 9, ..request() },
            OpenRequest { epoch: "x".to_owned(), ..request() },
            OpenRequest { epoch: "0/1".to_owned(), ..request() },
            OpenRequest { epoch: "1".repeat(17), ..request() },
            OpenRequest { index: 0, ..request() },
            OpenRequest { index: 7, ..request() },
            OpenRequest { stages: Vec::new(), ..request() },
            OpenRequest { stages: vec![[0, 1]; 1025], ..request() },
            OpenRequest { credits: 0, ..request() },
            OpenRequest { credits: 1 << 20, ..request() },
        ];
        for wrong in wrong {
            assert!(wrong.check([2, 3]).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_difference_is_named_with_both_sides() {
        let of = |weights: &str| BTreeMap::from([("weights".to_owned(), weights.to_owned())]);
        let none: &[String] = &[];
        assert_eq!(differences((&of("a"), none), (&of("a"), none)), Vec::<String>::new());
        let found = differences((&of("a"), &["p 1".to_owned()]), (&of("b"), none));
        assert_eq!(
            found,
            ["weights: the stage has a, the head has b", "plugins: the stage has p 1, the head has nothing"]
        );
        assert_eq!(differences((&BTreeMap::new(), none), (&of("b"), none)).len(), 1);
    }
}
