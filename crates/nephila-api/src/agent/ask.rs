//! Who answers requests of [`agent`](super): a server itself, or a node over the network.

use http::header::{HeaderMap, HeaderName, HeaderValue};

use crate::client::{NoAnswer, Peer, Question, Reply};
use crate::question::HttpQuestion;
use crate::routes::Answers;

/// Answers requests of the API.
pub trait Ask: Sync {
    /// Answers one request.
    fn ask(&self, question: Question) -> impl Future<Output = Result<Reply, NoAnswer>> + Send;
}

impl Ask for Peer {
    async fn ask(&self, question: Question) -> Result<Reply, NoAnswer> {
        Peer::ask(self, question).await
    }
}

/// A server that asks itself, by its own table of operations. The caller has the role that its request needs.
#[derive(Debug)]
pub struct Own<'a, A>(pub &'a A);

impl<A: Answers> Ask for Own<'_, A> {
    async fn ask(&self, question: Question) -> Result<Reply, NoAnswer> {
        let mut headers = HeaderMap::new();
        for (name, value) in &question.fields {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let mut asked = HttpQuestion::new(question.method, &question.target, headers, false);
        asked.body = question.body;
        let silent = |why: String| NoAnswer::Silent { address: "this server".to_owned(), why };
        let answer = tokio::time::timeout(question.timeout, A::routes().answer(self.0, asked));
        let answer =
            answer.await.map_err(|_| silent(format!("nothing came within {:?}", question.timeout)))?;
        let reply = Reply::of(answer).await;
        match reply.body.len() <= question.bytes_max {
            true => Ok(reply),
            false => Err(silent(format!("the answer has more than {} bytes", question.bytes_max))),
        }
    }
}
