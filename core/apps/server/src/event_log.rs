//! [`EventLog`]: what happens in a server apart from requests, in its log.

use crate::options::{LogFormat, LogSink, ServerOptions};
use crate::utc_time::seconds;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The log of a server.
#[derive(Clone)]
pub(crate) struct EventLog {
    format: LogFormat,
    sink: LogSink,
}

impl EventLog {
    /// The log that these options ask for.
    pub(crate) fn of(options: &ServerOptions) -> Self {
        Self { format: options.log, sink: Arc::clone(&options.sink) }
    }

    /// Logs an event.
    pub(crate) fn event(&self, name: &str, value: &Value) {
        if self.format != LogFormat::Off {
            self.write(name, value);
        }
    }

    /// Logs an error, also if nothing else is logged.
    pub(crate) fn error(&self, name: &str, reason: &str) {
        self.write(name, &reason.into());
    }

    fn write(&self, name: &str, value: &Value) {
        let line = match self.format {
            LogFormat::Json => {
                let mut line = Map::new();
                line.insert("time".to_owned(), seconds().into());
                line.insert(name.to_owned(), value.clone());
                Value::from(line).to_string()
            }
            LogFormat::Text | LogFormat::Off => match value {
                Value::String(text) => text.clone(),
                other => format!("{name}: {other}"),
            },
        };
        (self.sink)(&line);
    }
}
