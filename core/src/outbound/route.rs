//! What a request is counted under, before and after the API has said so.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use url::Url;

use super::options::invalid;
use super::preset::{Family, Grouping, Preset};
use crate::error::Result;

/// More routes than this are forgotten and found again: nothing is lost but a request to find out.
const MAX_ROUTES: usize = 10_000;

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Route {
    /// `GET api.example.com /users/:id`: what logs may show. No query, no ids, no credentials.
    pub(super) template: String,
    pub(super) host: String,
    pub(super) path: String,
    /// The ids that the API counts apart; they belong into keys, hashed, and nowhere else.
    pub(super) major: String,
}

impl Route {
    /// Takes a request's method and URL apart.
    pub(super) fn of(preset: Preset, method: &str, url: &str) -> Result<Self> {
        // The text may hold credentials, so the error does not repeat it.
        let url = Url::parse(url).map_err(|error| invalid("url", format!("must be an absolute URL: {error}")))?;
        let Some(host) = url.host_str() else { return Err(invalid("url", "must have a host")) };
        let host = match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host.to_owned(),
        };
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(invalid("method", "must be a word such as GET"));
        }
        let method = method.to_ascii_uppercase();
        let path = url.path().to_owned();
        let segments: Vec<&str> = path.split('/').filter(|segment| !segment.is_empty()).collect();
        let mut shown: Vec<&str> =
            segments.iter().map(|segment| if is_id(segment) { ":id" } else { *segment }).collect();
        let mut major = String::new();
        if preset.family() == Family::Discord {
            major = discord_major(&segments);
            hide_discord_tokens(&segments, &mut shown);
        }
        let template = format!("{method} {host} /{}", shown.join("/"));
        Ok(Self { template, host, path, major })
    }

    /// What it is counted under as long as no response has said better.
    pub(super) fn guess(&self, preset: Preset, has_identity: bool) -> Guess {
        let segments = || self.path.split('/').filter(|segment| !segment.is_empty());
        let bucket = match preset.family() {
            Family::Github => github_resource(&segments().collect::<Vec<_>>()),
            Family::Shopify if segments().any(|segment| segment.starts_with("graphql")) => "shop-graphql",
            Family::Shopify => "shop",
            Family::Gitlab if has_identity => "throttle_authenticated_api",
            Family::Gitlab => "throttle_unauthenticated_api",
            _ if preset.grouping() == Grouping::Host => "",
            _ => return Guess::Route(format!("{}\0{}", self.template, self.major)),
        };
        Guess::Bucket(bucket.to_owned())
    }
}

/// What a request is counted under as long as no response has said better.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Guess {
    /// A bucket of the API's, of the kind it names in its responses.
    Bucket(String),
    /// The route itself.
    Route(String),
}

/// Whether a segment of a path names one thing of many: a number, a UUID, a hash, a token.
fn is_id(segment: &str) -> bool {
    let bytes = segment.as_bytes();
    let (digits, letters) = bytes.iter().fold((0, 0), |(digits, letters), byte| {
        (digits + usize::from(byte.is_ascii_digit()), letters + usize::from(byte.is_ascii_alphabetic()))
    });
    let hexadecimal = bytes.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
    // `v1` is no id, and neither is `oauth2`; a name of nothing but letters may be a word.
    digits > 0 && letters == 0
        || hexadecimal && digits > 0 && bytes.len() >= 7
        || digits > 0 && bytes.len() >= 16
        || bytes.len() >= 40
        || bytes.iter().any(|byte| matches!(byte, b'@' | b'%' | b':'))
}

/// Discord's top-level ids: channel, guild, and webhook with its token.
fn discord_major(segments: &[&str]) -> String {
    let place = segments.iter().position(|segment| matches!(*segment, "channels" | "guilds" | "webhooks"));
    let Some(place) = place else { return String::new() };
    let ids = if segments[place] == "webhooks" { 2 } else { 1 };
    segments[place..].iter().take(ids + 1).copied().collect::<Vec<_>>().join("/")
}

/// An id and a token stand behind these words; the token lets anybody in, so it is hidden whatever it looks like.
fn hide_discord_tokens(segments: &[&str], shown: &mut [&str]) {
    for (place, word) in segments.iter().enumerate() {
        if matches!(*word, "webhooks" | "interactions") {
            shown.iter_mut().skip(place + 1).take(2).for_each(|segment| *segment = ":id");
        }
    }
}

/// The resource that GitHub counts a path under.
fn github_resource(segments: &[&str]) -> &'static str {
    // GitHub Enterprise has the same paths further down.
    let segments = match segments {
        ["api", "v3", rest @ ..] => rest,
        ["api", "graphql", ..] => &segments[1..],
        all => all,
    };
    match segments {
        ["search", "code", ..] => "code_search",
        ["search", ..] => "search",
        ["graphql", ..] => "graphql",
        ["app-manifests", ..] => "integration_manifest",
        [.., "code-scanning", "sarifs"] => "code_scanning_upload",
        [.., "dependency-graph", "snapshots"] => "dependency_snapshots",
        _ => "core",
    }
}

/// What this process has learnt of where things are counted: the bucket of a route, the quotas of a bucket.
///
/// The counts themselves are in the store. This is only what saves a look-up there.
#[derive(Debug, Default)]
pub(super) struct Directory {
    buckets: Mutex<HashMap<String, String>>,
    quotas: Mutex<HashMap<String, Vec<KnownQuota>>>,
}

/// A quota that a bucket has beside the one that rules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KnownQuota {
    pub(super) name: String,
    /// Whether it is counted down, or only open or closed.
    pub(super) counted: bool,
}

impl Directory {
    pub(super) fn bucket(&self, route: &str) -> Option<String> {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).get(route).cloned()
    }

    pub(super) fn learn_bucket(&self, route: &str, bucket: &str) {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.get(route).is_none_or(|known| known != bucket) {
            make_room(&mut buckets);
            buckets.insert(route.to_owned(), bucket.to_owned());
        }
    }

    pub(super) fn forget_bucket(&self, route: &str) {
        self.buckets.lock().unwrap_or_else(PoisonError::into_inner).remove(route);
    }

    pub(super) fn quotas(&self, bucket: &str) -> Vec<KnownQuota> {
        self.quotas.lock().unwrap_or_else(PoisonError::into_inner).get(bucket).cloned().unwrap_or_default()
    }

    /// Servers may leave quotas out of a response, so what is known is added to, up to `MAX_QUOTAS`.
    pub(super) fn learn_quotas(&self, bucket: &str, told: &[KnownQuota]) {
        const MAX_QUOTAS: usize = 8;
        let mut quotas = self.quotas.lock().unwrap_or_else(PoisonError::into_inner);
        if told.iter().all(|quota| quotas.get(bucket).is_some_and(|known| known.contains(quota))) {
            return;
        }
        make_room(&mut quotas);
        let known = quotas.entry(bucket.to_owned()).or_default();
        for quota in told {
            known.retain(|other| other.name != quota.name);
            known.push(quota.clone());
        }
        let surplus = known.len().saturating_sub(MAX_QUOTAS);
        known.drain(..surplus);
    }
}

fn make_room<V>(map: &mut HashMap<String, V>) {
    if map.len() >= MAX_ROUTES {
        map.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(url: &str) -> String {
        Route::of(Preset::GENERIC, "get", url).expect("a route").template
    }

    #[test]
    fn ids_are_collapsed_and_words_are_not() {
        for (path, shown) in [
            ("/users/42/posts", "/users/:id/posts"),
            ("/v1/oauth2/token", "/v1/oauth2/token"),
            ("/o/0d4f3c7a-7b1e-4f0a-9d7e-0b6f6d6a2c11", "/o/:id"),
            ("/commits/9fceb02", "/commits/:id"),
            ("/people/ada@example.com", "/people/:id"),
            ("/xoxb-123456789012-secret/x", "/:id/x"),
            ("/search?q=secret", "/search"),
            ("/", "/"),
        ] {
            assert_eq!(template(&format!("https://api.test{path}")), format!("GET api.test {shown}"), "{path}");
        }
        assert_eq!(template("https://user:password@api.test:8443/a#f"), "GET api.test:8443 /a");
    }

    #[test]
    fn discord_counts_channels_guilds_and_webhooks_apart() {
        let major = |path: &str| {
            Route::of(Preset::DISCORD, "POST", &format!("https://discord.com/api/v10{path}")).expect("a route").major
        };
        assert_eq!(major("/channels/1/messages/2"), "channels/1");
        assert_eq!(major("/guilds/7/members/8"), "guilds/7");
        assert_eq!(major("/webhooks/5/token"), "webhooks/5/token");
        assert_eq!(major("/users/@me"), "");
    }

    #[test]
    fn github_counts_by_resource() {
        let guess = |path: &str| {
            let route = Route::of(Preset::GITHUB, "GET", &format!("https://api.github.com{path}")).expect("a route");
            route.guess(Preset::GITHUB, true)
        };
        for (path, resource) in [
            ("/user", "core"),
            ("/search/issues", "search"),
            ("/search/code", "code_search"),
            ("/graphql", "graphql"),
            ("/api/graphql", "graphql"),
            ("/api/v3/search/users", "search"),
        ] {
            assert_eq!(guess(path), Guess::Bucket(resource.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_bad_url_is_refused_without_being_repeated() {
        let error = Route::of(Preset::GENERIC, "GET", "/relative?token=secret").unwrap_err();
        assert_eq!(error.argument(), Some("url"));
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
