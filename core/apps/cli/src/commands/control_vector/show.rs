//! `control-vector show FILE`: the model it was made for, and its directions.

use crate::failure::Failure;
use crate::output;
use clap::Args;
use menagerie::measure::ControlVector;
use serde_json::json;
use std::path::PathBuf;

/// Print the model that a control vector was made for, and the length of its direction for each layer
#[derive(Args)]
pub(crate) struct ShowVectorCommand {
    /// The file
    file: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ShowVectorCommand {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let vector = ControlVector::open(&self.file)?;
        let length =
            |values: &Vec<f32>| values.iter().map(|value| f64::from(*value).powi(2)).sum::<f64>().sqrt();
        if self.json {
            let direction =
                |(layer, values): (&usize, &Vec<f32>)| json!({ "layer": layer, "length": length(values) });
            return output::json(&json!({
                "file": self.file.display().to_string(),
                "model": vector.hint,
                "width": vector.width(),
                "directions": vector.directions.iter().map(direction).collect::<Vec<_>>(),
            }));
        }
        let made_for = vector.hint.as_ref().map_or(String::new(), |hint| format!(", made for {hint}"));
        let count = output::counted(vector.directions.len(), "direction");
        output::line(&format!("{}: {count} of width {}{made_for}", self.file.display(), vector.width()))?;
        for (layer, values) in &vector.directions {
            output::line(&format!("layer {layer:>3}  length {:.4}", length(values)))?;
        }
        Ok(())
    }
}
