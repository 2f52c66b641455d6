//! [`Slot`]: a site, and the rows of a module that belong there.

use super::Fitting;
use crate::error::AdapterError;
use crate::module::AdapterModule;
use crate::place::ModulePlace;
use menagerie_model::{AdapterSite, HeadRows, SiteForm, SiteShape};
use menagerie_spec::Layout;
use std::ops::Range;

/// A site, and which rows of a module belong there.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    /// Number of the site.
    pub(super) site: usize,
    /// Rows of the module, in the order of the site.
    pub(super) rows: Vec<usize>,
    /// How they become the site's weight.
    pub(super) form: SlotForm,
}

/// What the site's weight is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotForm {
    /// The rows.
    Rows,
    /// A matrix for each head.
    Heads,
    /// The same, turned.
    TurnedHeads,
}

/// Linears of a role that the model may hold as parts of others.
const PARTS_OF_QKV: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

impl Fitting<'_> {
    /// Sites of a role, with their numbers; no tables.
    fn sites_of(&self, role: &str, layer: Option<usize>) -> Vec<(usize, &AdapterSite)> {
        let here = |site: &AdapterSite| {
            site.place.role == role && site.place.layer == layer && !matches!(site.shape, SiteShape::Table(_))
        };
        self.target.sites.iter().enumerate().filter(|(_, site)| here(site)).collect()
    }

    /// Where the `out` rows of a module go; a role that the model holds as part of another, or cut into parts, is found
    /// there.
    pub(super) fn slots(
        &self,
        module: &AdapterModule,
        place: &ModulePlace,
        out: usize,
    ) -> Result<Vec<Slot>, AdapterError> {
        let (role, layer) = (place.role.as_str(), place.layer);
        let own = self.sites_of(role, layer);
        let slots = if !own.is_empty() {
            let second = (role == "ffn_up" && own.len() == 2).then(|| own[1].1.place.rows.clone());
            match second {
                // The model holds gate and up as one, and the module is up alone.
                Some(rows) if rows.len() == out && rows.start == out => self.part(&own[1..], rows)?,
                _ => own.iter().map(|(site, at)| self.slot(*site, at, at.place.rows.clone())).collect(),
            }
        } else {
            self.slots_elsewhere(module, place)?
        };
        let slots =
            slots.into_iter().collect::<Result<Vec<_>, String>>().map_err(|why| self.error(module, why))?;
        if slots.is_empty() {
            let reason = format!(
                "it is {role} of the model{}, which is no linear there: only linears and the embedding take adapters",
                layer.map_or_else(String::new, |layer| format!(", block {layer}"))
            );
            return Err(self.error(module, reason));
        }
        let rows: usize =
            slots.iter().flat_map(|slot| slot.rows.iter().max()).max().map_or(0, |last| last + 1);
        if rows != out {
            let reason = format!(
                "it has {out} outputs, and {role} of the model has {rows}: was the adapter trained on another model?"
            );
            return Err(self.error(module, reason));
        }
        Ok(slots)
    }

    fn part(
        &self,
        sites: &[(usize, &AdapterSite)],
        rows: Range<usize>,
    ) -> Result<Vec<Result<Slot, String>>, AdapterError> {
        Ok(sites.iter().map(|(site, at)| self.slot(*site, at, 0..rows.len())).collect())
    }

    /// A role under other names.
    fn slots_elsewhere(
        &self,
        module: &AdapterModule,
        place: &ModulePlace,
    ) -> Result<Vec<Result<Slot, String>>, AdapterError> {
        let layer = place.layer;
        match place.role.as_str() {
            // A tied head is the embedding's matrix.
            "output" => {
                let tied = self.sites_of("token_embd", None);
                Ok(tied.iter().map(|(site, at)| self.slot(*site, at, at.place.rows.clone())).collect())
            }
            "attn_kv_b" => {
                let parts = ["attn_k_b", "attn_v_b"].map(|role| self.sites_of(role, layer)).concat();
                Ok(parts.iter().map(|(site, at)| self.slot(*site, at, at.place.rows.clone())).collect())
            }
            "attn_qkv" => {
                let (mut start, mut slots) = (0, Vec::new());
                for (site, at) in PARTS_OF_QKV.iter().flat_map(|role| self.sites_of(role, layer)) {
                    let rows = start..start + at.place.rows.len();
                    start = rows.end;
                    slots.push(self.slot(site, at, rows));
                }
                Ok(slots)
            }
            role => {
                let whole = match role {
                    "ffn_gate" => self.sites_of("ffn_up", layer),
                    _ => self.sites_of("attn_qkv", layer),
                };
                let known: &[&str] = if role == "ffn_gate" { &["ffn_gate", "ffn_up"] } else { &PARTS_OF_QKV };
                let at = known.iter().position(|known| *known == role);
                // A part of a fused weight: only where it is cut into as many parts.
                match at.and_then(|at| whole.get(at)).filter(|_| whole.len() == known.len()) {
                    Some((site, found)) => self.part(&[(*site, *found)], found.place.rows.clone()),
                    None => {
                        let _ = module;
                        Ok(Vec::new())
                    }
                }
            }
        }
    }

    /// The rows of a module for one site: those of its range, in the order of the model's format.
    fn slot(&self, site: usize, at: &AdapterSite, rows: Range<usize>) -> Result<Slot, String> {
        let heads = |heads: &HeadRows, form| {
            let HeadRows { heads, rows } = heads;
            // The rows of a head: of keys, then of values.
            let of_head = self.head_rows(at);
            let rows: Vec<usize> =
                (0..*heads).flat_map(|head| rows.clone().map(move |row| head * of_head + row)).collect();
            Slot { site, rows, form }
        };
        match (&at.place.form, at.shape) {
            (SiteForm::Stored, _) => {
                let part = self.part_number(at);
                let order = self.order.of(&at.place, part, rows.len())?;
                let rows = match order {
                    None => rows.collect(),
                    Some(order) => order.into_iter().map(|row| rows.start + row).collect(),
                };
                Ok(Slot { site, rows, form: SlotForm::Rows })
            }
            (SiteForm::HeadRows(of), SiteShape::Experts(_)) => Ok(heads(of, SlotForm::Heads)),
            (SiteForm::HeadRows(of), _) => Ok(heads(of, SlotForm::Rows)),
            (SiteForm::TurnedHeads(of), _) => Ok(heads(of, SlotForm::TurnedHeads)),
        }
    }

    /// Rows of a head of the weight that a site was made of: the last one that any of its sites has.
    fn head_rows(&self, at: &AdapterSite) -> usize {
        let sites = self.target.sites.iter().filter(|site| site.place.layer == at.place.layer);
        let ends = sites.filter_map(|site| match &site.place.form {
            SiteForm::Stored => None,
            SiteForm::HeadRows(of) | SiteForm::TurnedHeads(of) => Some(of.rows.end),
        });
        ends.max().unwrap_or(0)
    }

    /// Which part of its stored weight a site is, counted from 0.
    fn part_number(&self, at: &AdapterSite) -> usize {
        let sites = self.sites_of(&at.place.role, at.place.layer);
        let mut starts: Vec<usize> = sites.iter().map(|(_, site)| site.place.rows.start).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.iter().position(|start| *start == at.place.rows.start).unwrap_or(0)
    }

    /// For each row of a role the row of the module, as the layouts say; none where they are the same.
    pub(super) fn rows_of_layout(
        &self,
        module: &AdapterModule,
        place: &ModulePlace,
        rows: usize,
    ) -> Result<Option<Vec<usize>>, AdapterError> {
        let mut order: Option<Vec<usize>> = None;
        for layout in &place.layout {
            let now = order.unwrap_or_else(|| (0..rows).collect());
            order = Some(match layout {
                Layout::EvenRows => now.into_iter().step_by(2).collect(),
                Layout::OddRows => now.into_iter().skip(1).step_by(2).collect(),
                Layout::GroupedQkv => {
                    let heads = self.order.heads(place.layer);
                    let grouped = heads.and_then(|heads| grouped(rows, heads));
                    let Some(grouped) = grouped else {
                        return Err(self.error(
                            module,
                            format!("{rows} rows are no groups of queries, keys and values"),
                        ));
                    };
                    grouped.into_iter().map(|row| now[row]).collect()
                }
                Layout::DeltaQkv | Layout::DeltaGate => {
                    let picked = self.order.delta(place.layer, rows, *layout == Layout::DeltaGate);
                    let Some(picked) = picked else {
                        let reason = format!(
                            "{rows} rows are not those of the model's key heads with their values and gates"
                        );
                        return Err(self.error(module, reason));
                    };
                    picked.into_iter().map(|row| now[row]).collect()
                }
                // Low-rank matrices are `[rank, in]` and `[out, rank]` however the weight lies in the file.
                Layout::Transpose | Layout::Squeeze | Layout::Mxfp4 => now,
                Layout::EvenColumns
                | Layout::OddColumns
                | Layout::NegativeExp
                | Layout::WithoutPadding
                | Layout::SplitExperts
                | Layout::GateOfQkv
                | Layout::QkvBehindGate => {
                    // Biases of experts, decays and positions are no linears; PEFT cannot wrap experts whose rows are one
                    // matrix (its ParamWrapper hides the module's other parameters).
                    let reason = format!("{} is stored in a form that adapters have no part in", place.role);
                    return Err(self.error(module, reason));
                }
            });
        }
        Ok(order)
    }
}

/// Rows q..q, k, v of each group as all q, all k, all v.
fn grouped(rows: usize, [heads, groups]: [usize; 2]) -> Option<Vec<usize>> {
    let queries = heads.checked_div(groups)?;
    let dim = rows.checked_div(heads + 2 * groups)?;
    if dim * (heads + 2 * groups) != rows || queries * groups != heads {
        return None;
    }
    let at = |group: usize, slot: usize| {
        let start = (group * (queries + 2) + slot) * dim;
        start..start + dim
    };
    let all_queries = (0..groups).flat_map(|group| (0..queries).flat_map(move |slot| at(group, slot)));
    let keys = (0..groups).flat_map(|group| at(group, queries));
    let values = (0..groups).flat_map(|group| at(group, queries + 1));
    Some(all_queries.chain(keys).chain(values).collect())
}

#[cfg(test)]
mod tests {
    use super::grouped;

    #[test]
    fn groups_are_taken_apart() {
        // Two groups of two queries, heads of one row: q0 q1 k0 v0 q2 q3 k1 v1.
        assert_eq!(grouped(8, [4, 2]).unwrap(), [0, 1, 4, 5, 2, 6, 3, 7]);
        assert_eq!(grouped(9, [4, 2]), None);
    }
}
