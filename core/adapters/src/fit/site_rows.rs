//! [`SiteRows`]: a site, and the rows of a module that belong to it.

use super::AdapterFit;
use crate::error::AdapterError;
use crate::module::AdapterModule;
use crate::module_place::ModulePlace;
use menagerie_model::{AdapterSite, HeadRows, SiteForm, SiteShape};
use menagerie_spec::Layout;
use std::ops::Range;

/// A site, and the rows of a module that belong to it.
#[derive(Clone, Debug)]
pub(super) struct SiteRows {
    /// The number of the site.
    pub(super) site: usize,
    /// The rows of the module, in the order of the site.
    pub(super) rows: Vec<usize>,
    /// The form of the site's weight.
    pub(super) form: RowsForm,
}

/// The form of the weight of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowsForm {
    /// The rows.
    Rows,
    /// A matrix for each head.
    Heads,
    /// A transposed matrix for each head.
    TransposedHeads,
}

/// Roles that a model may have as parts of one fused weight.
const PARTS_OF_QKV: [&str; 3] = ["attn_q", "attn_k", "attn_v"];

impl AdapterFit<'_> {
    /// The sites of a role with their numbers, without tables.
    fn sites_of(&self, role: &str, layer: Option<usize>) -> Vec<(usize, &AdapterSite)> {
        let here = |site: &AdapterSite| {
            site.place.role == role && site.place.layer == layer && !matches!(site.shape, SiteShape::Table(_))
        };
        self.target.sites.iter().enumerate().filter(|(_, site)| here(site)).collect()
    }

    /// The sites of the `out` rows of a module, including those of a role that is fused with others or split into parts.
    pub(super) fn site_rows(
        &self,
        module: &AdapterModule,
        place: &ModulePlace,
        out: usize,
    ) -> Result<Vec<SiteRows>, AdapterError> {
        let (role, layer) = (place.role.as_str(), place.layer);
        let own = self.sites_of(role, layer);
        let found = if !own.is_empty() {
            let second = (role == "ffn_up" && own.len() == 2).then(|| own[1].1.place.rows.clone());
            match second {
                // The model has gate and up fused, and the module is only up.
                Some(rows) if rows.len() == out && rows.start == out => self.part(&own[1..], rows),
                _ => own.iter().map(|(site, at)| self.rows_at(*site, at, at.place.rows.clone())).collect(),
            }
        } else {
            self.fused_site_rows(place)
        };
        let found: Result<Vec<SiteRows>, String> = found.into_iter().collect();
        let found = found.map_err(|reason| self.error(module, reason))?;
        if found.is_empty() {
            let reason = format!(
                "it is {role} of the model{}, which is not a linear there; only linears and the embedding support adapters",
                layer.map_or_else(String::new, |layer| format!(", block {layer}"))
            );
            return Err(self.error(module, reason));
        }
        let rows: usize =
            found.iter().flat_map(|site| site.rows.iter().max()).max().map_or(0, |last| last + 1);
        if rows != out {
            let reason = format!(
                "it has {out} outputs, expected {rows} for {role} of the model; was the adapter trained on another model?"
            );
            return Err(self.error(module, reason));
        }
        Ok(found)
    }

    fn part(&self, sites: &[(usize, &AdapterSite)], rows: Range<usize>) -> Vec<Result<SiteRows, String>> {
        sites.iter().map(|(site, at)| self.rows_at(*site, at, 0..rows.len())).collect()
    }

    /// The sites of a role that the model has under other names.
    fn fused_site_rows(&self, place: &ModulePlace) -> Vec<Result<SiteRows, String>> {
        let layer = place.layer;
        match place.role.as_str() {
            // A tied head is the matrix of the embedding.
            "output" => {
                let tied = self.sites_of("token_embd", None);
                tied.iter().map(|(site, at)| self.rows_at(*site, at, at.place.rows.clone())).collect()
            }
            "attn_kv_b" => {
                let parts = ["attn_k_b", "attn_v_b"].map(|role| self.sites_of(role, layer)).concat();
                parts.iter().map(|(site, at)| self.rows_at(*site, at, at.place.rows.clone())).collect()
            }
            "attn_qkv" => {
                let (mut start, mut found) = (0, Vec::new());
                for (site, at) in PARTS_OF_QKV.iter().flat_map(|role| self.sites_of(role, layer)) {
                    let rows = start..start + at.place.rows.len();
                    start = rows.end;
                    found.push(self.rows_at(site, at, rows));
                }
                found
            }
            role => {
                let whole = match role {
                    "ffn_gate" => self.sites_of("ffn_up", layer),
                    _ => self.sites_of("attn_qkv", layer),
                };
                let known: &[&str] = if role == "ffn_gate" { &["ffn_gate", "ffn_up"] } else { &PARTS_OF_QKV };
                let at = known.iter().position(|known| *known == role);
                // A part of a fused weight, if it has the expected number of parts.
                match at.and_then(|at| whole.get(at)).filter(|_| whole.len() == known.len()) {
                    Some((site, found)) => self.part(&[(*site, *found)], found.place.rows.clone()),
                    None => Vec::new(),
                }
            }
        }
    }

    /// The rows of a module for one site: those of its range, in the order of the model's format.
    fn rows_at(&self, site: usize, at: &AdapterSite, rows: Range<usize>) -> Result<SiteRows, String> {
        let heads = |heads: &HeadRows, form| {
            let HeadRows { heads, rows } = heads;
            // The rows of a head: first those of keys, then those of values.
            let of_head = self.head_rows(at);
            let rows: Vec<usize> =
                (0..*heads).flat_map(|head| rows.clone().map(move |row| head * of_head + row)).collect();
            SiteRows { site, rows, form }
        };
        match (&at.place.form, at.shape) {
            (SiteForm::Stored, _) => {
                let part = self.part_number(at);
                let order = self.order.of(&at.place, part, rows.len())?;
                let rows = match order {
                    None => rows.collect(),
                    Some(order) => order.into_iter().map(|row| rows.start + row).collect(),
                };
                Ok(SiteRows { site, rows, form: RowsForm::Rows })
            }
            (SiteForm::HeadRows(of), SiteShape::Experts(_)) => Ok(heads(of, RowsForm::Heads)),
            (SiteForm::HeadRows(of), _) => Ok(heads(of, RowsForm::Rows)),
            (SiteForm::TurnedHeads(of), _) => Ok(heads(of, RowsForm::TransposedHeads)),
        }
    }

    /// The number of rows of a head in the stored weight of a site: the last row of any of its sites.
    fn head_rows(&self, at: &AdapterSite) -> usize {
        let sites = self.target.sites.iter().filter(|site| site.place.layer == at.place.layer);
        let ends = sites.filter_map(|site| match &site.place.form {
            SiteForm::Stored => None,
            SiteForm::HeadRows(of) | SiteForm::TurnedHeads(of) => Some(of.rows.end),
        });
        ends.max().unwrap_or(0)
    }

    /// The index of a site in its stored weight.
    fn part_number(&self, at: &AdapterSite) -> usize {
        let sites = self.sites_of(&at.place.role, at.place.layer);
        let mut starts: Vec<usize> = sites.iter().map(|(_, site)| site.place.rows.start).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.iter().position(|start| *start == at.place.rows.start).unwrap_or(0)
    }

    /// The row of the module for each row of a role, by the layouts; `None` if they are the same.
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
                            format!(
                                "its {rows} rows are not groups of queries, keys and values; was the adapter trained \
                                 on another model?"
                            ),
                        ));
                    };
                    grouped.into_iter().map(|row| now[row]).collect()
                }
                Layout::DeltaQkv | Layout::DeltaGate => {
                    let picked = self.order.delta(place.layer, rows, *layout == Layout::DeltaGate);
                    let Some(picked) = picked else {
                        let reason = format!(
                            "its {rows} rows are not those of the model's key heads with values and gates; was the \
                             adapter trained on another model?"
                        );
                        return Err(self.error(module, reason));
                    };
                    picked.into_iter().map(|row| now[row]).collect()
                }
                // Low-rank matrices are `[rank, in]` and `[out, rank]`, whatever the layout of the weight in the file.
                Layout::Transpose | Layout::Squeeze | Layout::Mxfp4 => now,
                Layout::EvenColumns
                | Layout::OddColumns
                | Layout::NegativeExp
                | Layout::WithoutPadding
                | Layout::SplitExperts
                | Layout::GateOfQkv
                | Layout::QkvBehindGate => {
                    // Biases of experts, decays and positions are not linears. PEFT cannot wrap experts whose rows are one
                    // matrix (its ParamWrapper hides the other parameters of the module).
                    let reason = format!(
                        "{} is stored in a form that does not support adapters; merge the adapter with PEFT",
                        place.role
                    );
                    return Err(self.error(module, reason));
                }
            });
        }
        Ok(order)
    }
}

/// From rows q..q, k, v of each group to all q, all k, all v.
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
    fn groups_are_separated() {
        // Two groups of two queries, heads of one row: q0 q1 k0 v0 q2 q3 k1 v1.
        assert_eq!(grouped(8, [4, 2]).unwrap(), [0, 1, 4, 5, 2, 6, 3, 7]);
        assert_eq!(grouped(9, [4, 2]), None);
    }
}
