//! A36: a name means one file, whatever happens to be on this machine.

use super::{HELLO, MODEL, Place, WORLD};
use menagerie_hub::{Hub, HubError, HubSettings, ModelReference};

fn two() -> Place {
    Place::with(&[(MODEL, b"hello", HELLO), ("m-F16.gguf", b"world", WORLD)])
}

#[test]
fn a_bare_name_never_turns_into_another_file() {
    let place = two();
    let hub = place.hub();
    place.pull("org/repo").unwrap();
    place.pull("org/repo:F16").unwrap();
    let model = hub.find("org/repo").unwrap();
    assert_eq!(model.name, "hf:org/repo/m-Q4_K_M.gguf");
    hub.remove(&model).unwrap();
    // The F16 file is all that is left: it is still not what `org/repo` means.
    let error = hub.find("org/repo").unwrap_err();
    assert!(error.to_string().contains("the installed models are hf:org/repo/m-F16.gguf"), "{error}");
    let bare = ModelReference::parse("org/repo").unwrap();
    assert_eq!(hub.locate(&bare).unwrap(), None);
    let error = place.offline().pull(&bare, &mut menagerie_hub::NoProgress).unwrap_err();
    assert!(error.to_string().contains("this machine has hf:org/repo/m-F16.gguf"), "{error}");
    assert_eq!(hub.find("org/repo:f16").unwrap().name, "hf:org/repo/m-F16.gguf");
}

#[test]
fn the_only_model_of_a_repository_is_found_again_offline() {
    let place = Place::with(&[("m-F16.gguf", b"world", WORLD)]);
    let path = place.pull("org/repo").unwrap();
    let bare = ModelReference::parse("org/repo").unwrap();
    assert_eq!(place.offline().locate(&bare).unwrap(), Some(path));
}

#[test]
fn what_fits_several_is_asked_about() {
    let place = Place::with(&[("a-Q8_0.gguf", b"hello", HELLO), ("b-Q8_0.gguf", b"world", WORLD)]);
    for text in ["org/repo", "org/repo:Q8_0"] {
        let error = place.pull(text).unwrap_err();
        assert!(matches!(error, HubError::Ambiguous { .. }), "{error}");
        assert!(error.to_string().contains("hf:org/repo/b-Q8_0.gguf"), "{error}");
    }
    assert!(place.server.transfers().is_empty());
    assert!(place.pull("hf:org/repo/b-Q8_0.gguf").unwrap().ends_with("b-Q8_0.gguf"));
    let error = place.pull("org/repo:Q5_0").unwrap_err();
    assert!(error.to_string().contains("it has a-Q8_0.gguf, b-Q8_0.gguf"), "{error}");
}

/// Two snapshots with the same file have two names, and each finds its own.
#[test]
fn every_installed_model_has_a_name_of_its_own() {
    let place = Place::hello();
    place.pull("org/repo").unwrap();
    place.server.publish("c0ffee0000000000000000000000000000000002", &[(MODEL, b"world", WORLD)]);
    place.pull("org/repo").unwrap();
    let models = place.hub().installed().unwrap();
    let names: Vec<&str> = models.iter().map(|model| model.name.as_str()).collect();
    let old = format!("hf:org/repo@{}/{MODEL}", super::server::COMMIT);
    assert_eq!(names, ["hf:org/repo/m-Q4_K_M.gguf", &old]);
    for model in &models {
        assert_eq!(place.hub().find(&model.name).unwrap(), *model);
        let reference = ModelReference::parse(&model.name).unwrap();
        assert_eq!(place.hub().locate(&reference).unwrap().as_ref(), Some(&model.path));
    }
    let error = place.hub().find(MODEL).unwrap_err();
    assert!(matches!(error, HubError::Ambiguous { .. }), "{error}");
}

/// U20: what people copy from the pages of the hub that they use.
#[test]
fn addresses_of_the_configured_hub_are_repositories() {
    let place = two();
    let address = format!("{}/org/repo/blob/main/m-F16.gguf", place.server.address);
    for address in [address.clone(), address.replace("http://", "https://"), address + "?download=true"] {
        let reference = place.hub().reference(&address).unwrap();
        assert_eq!(reference.to_string(), "hf:org/repo/m-F16.gguf");
    }
    let page = place.hub().reference(&place.server.address.replace("http", "https")).unwrap_err();
    assert!(page.to_string().contains("only URLs of the hub"), "{page}");
    // A hub below a path, and an address that only begins like one.
    let hub =
        |endpoint: &str| Hub::new(HubSettings { endpoint: endpoint.to_owned(), ..place.settings.clone() });
    let below = hub("https://example.com/hub").reference("https://example.com/hub/a/b").unwrap();
    assert_eq!(below.to_string(), "a/b");
    for other in ["https://example.com/hubs/a/b", "https://example.com/a/b"] {
        assert!(hub("https://example.com/hub").reference(other).is_err(), "{other}");
    }
    assert!(hub("").reference("https:///a/b").is_err());
    // Wherever models come from, a page of the public hub means the same repository.
    assert_eq!(place.hub().reference("https://huggingface.co/a/b").unwrap().to_string(), "a/b");
}

/// P12, P15: a path is no name.
#[test]
fn paths_are_told_from_names() {
    let place = Place::hello();
    let file = place.folder.path().join("own.gguf");
    std::fs::write(&file, "").unwrap();
    let file = file.to_str().unwrap();
    for error in [place.pull(file).unwrap_err(), place.hub().find(file).unwrap_err()] {
        assert!(matches!(error, HubError::NotAName { .. }), "{error}");
    }
    let error = place.hub().find("nothing").unwrap_err();
    assert!(error.to_string().contains("no models are installed"), "{error}");
}
