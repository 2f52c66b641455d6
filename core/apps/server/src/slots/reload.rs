//! The library is read again while the server runs.

use super::table::{ModelSlot, SlotState, SlotTable};
use super::{ModelChange, ModelSlots};
use crate::fault::ApiFault;
use crate::library::LibraryModel;
use std::collections::BTreeSet;

impl ModelSlots {
    /// Reads the library again. Requests that run go on with the model that they have.
    pub(super) fn reload_now(&self) -> Result<ModelChange, ApiFault> {
        let Some(library) = &self.library else { return Ok(ModelChange::default()) };
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            ApiFault::new(500, format!("nothing was reloaded: {error}")).with_code("reload_failed")
        };
        let found = library.reload().map_err(failed)?;
        let models = library.models().map_err(failed)?;
        check_names(&self.lock(), &models)?;
        let mut table = self.lock();
        let outdated: BTreeSet<String> = table
            .slots
            .iter()
            .filter(|slot| self.is_outdated(Some(slot)))
            .map(|slot| slot.id.clone())
            .collect();
        let mut change = ModelChange { specs: found.specs, plugins: found.plugins, ..ModelChange::default() };
        remove_missing(&mut table, &models, &mut change);
        for model in models {
            let place = table.slots.iter().position(|slot| slot.id == model.id);
            let Some((at, slot)) = place.and_then(|at| Some((at, table.slots.get_mut(at)?))) else {
                change.added.push(model.id.clone());
                table.slots.push(ModelSlot::absent(model));
                continue;
            };
            let is_other = outdated.contains(&model.id)
                || found.models.contains(&model.id)
                || slot.adapters != model.adapters;
            (slot.aliases, slot.adapters) = (model.aliases, model.adapters);
            // What was wrong may be right now.
            if matches!(slot.state, SlotState::Failed(..)) {
                slot.state = SlotState::Absent;
            }
            if is_other {
                change.changed.push(model.id);
                table.retire(at);
            }
        }
        drop(table);
        self.changed();
        Ok(change)
    }
}

/// Removes the models that the library does not have any more.
fn remove_missing(table: &mut SlotTable, models: &[LibraryModel], change: &mut ModelChange) {
    let is_there = |slot: &ModelSlot| !slot.is_in_library || models.iter().any(|model| model.id == slot.id);
    let (left, gone): (Vec<ModelSlot>, Vec<ModelSlot>) =
        std::mem::take(&mut table.slots).into_iter().partition(is_there);
    table.slots = left;
    for mut slot in gone {
        table.retired.extend(slot.take_running(SlotState::Absent));
        change.removed.push(slot.id);
    }
}

/// Refuses two models with the same name.
fn check_names(table: &SlotTable, models: &[LibraryModel]) -> Result<(), ApiFault> {
    let given = table.slots.iter().filter(|slot| !slot.is_in_library).flat_map(ModelSlot::names);
    let offered = models.iter().flat_map(|model| std::iter::once(&model.id).chain(&model.aliases));
    let mut known = BTreeSet::new();
    match given.chain(offered).find(|name| !known.insert(*name)) {
        None => Ok(()),
        Some(name) => {
            let reason = format!("nothing was reloaded: two models have the name {name}; rename a file");
            Err(ApiFault::new(500, reason).with_code("reload_failed"))
        }
    }
}
