//! [`OwnedRecords`]: the files or the batches of a client.

use super::answers::client_of;
use super::list_page::ListPage;
use crate::app::ServerApp;
use crate::fault::ApiFault;
use crate::http::json_answer;
use crate::stored::RecordStore;
use axum::extract::Request;
use axum::response::Response;
use serde_json::Value;

/// What clients call an object of a store.
#[derive(Clone, Copy)]
pub(super) struct RecordKind {
    /// In an error.
    pub(super) name: &'static str,
    /// The code of the error of an id that is not there.
    pub(super) missing: &'static str,
    /// The most objects in a list, and the number without `limit`.
    pub(super) most: usize,
    pub(super) usual: usize,
}

/// The objects of a store that belong to the client of a request.
pub(super) struct OwnedRecords<'a> {
    store: &'a RecordStore,
    kind: RecordKind,
    owner: String,
}

impl<'a> OwnedRecords<'a> {
    pub(super) fn of(app: &ServerApp, store: &'a RecordStore, kind: RecordKind, request: &Request) -> Self {
        Self { store, kind, owner: app.owner(client_of(request).0) }
    }

    /// The part of the list that a request asks for.
    pub(super) fn list(&self, request: &Request) -> Result<Response, ApiFault> {
        let page = ListPage::read(request.uri(), self.kind.most, self.kind.usual)?;
        Ok(json_answer(&page.of(self.store.of(&self.owner))?))
    }

    /// The object with this id. The id is looked up, and never a path.
    pub(super) fn one(&self, id: &str) -> Result<Value, ApiFault> {
        let RecordKind { name, missing, .. } = self.kind;
        let found = self.store.get(&self.owner, id);
        found.ok_or_else(|| ApiFault::new(404, format!("there is no {name} {id:?}")).with_code(missing))
    }
}
