//! Tools, and formats of calls.

use menagerie::answers::{CallFormatFault, CallShapeFault, ToolFault};
use menagerie::loaders::CallSupportError;

#[test]
fn calls() {
    let template = || "default".to_owned();
    let format = || "hermes".to_owned();
    let said = messages![
        CallFormatFault::UnknownHole { hole: "nam".to_owned() },
        CallFormatFault::Holes,
        CallFormatFault::Unbounded,
        CallFormatFault::ArgumentForm,
        CallFormatFault::Needs { hole: "${object}", key: "object" },
        CallFormatFault::NoMarker,
        ToolFault::NoName { index: 0 },
        ToolFault::Name { index: 1, name: "a b".to_owned() },
        ToolFault::Twice { index: 1, name: "look_up".to_owned() },
        CallShapeFault::NoTool,
        CallShapeFault::UnknownTool { name: "rm".to_owned(), known: "look_up, now".to_owned() },
        CallShapeFault::Parameters {
            tool: "look_up".to_owned(),
            at: "/properties/text".to_owned(),
            part: "`pattern`".to_owned(),
            reason: "cannot be enforced where texts are written without quotes: remove it".to_owned(),
        },
        CallSupportError::Unknown { template: template() },
        CallSupportError::Several { template: template(), names: "`hermes`, `glm-4.5`".to_owned() },
        CallSupportError::Lost {
            template: template(),
            format: format(),
            what: "the tools".to_owned(),
            found: "\"<|user|>probe\"".to_owned(),
        },
        CallSupportError::Differs {
            template: template(),
            format: format(),
            written: "\"<tool_call>{}</tool_call>\"".to_owned(),
            found: "no call".to_owned(),
            expected: "get_weather({\"days\":3})".to_owned(),
        },
    ];
    insta::assert_snapshot!(said);
}
