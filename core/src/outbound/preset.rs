//! The APIs that people really use, and how each of them speaks.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result};

/// How an API tells its limits, and which statuses it refuses with.
///
/// ```
/// use ratelimit_core::outbound::Preset;
///
/// assert_eq!("github".parse::<Preset>()?, Preset::GITHUB);
/// assert!("myspace".parse::<Preset>().is_err());
/// # Ok::<(), ratelimit_core::Error>(())
/// ```
#[derive(Clone, Copy)]
pub struct Preset(&'static Facts);

/// Which parser reads it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Generic,
    Ietf,
    Github,
    Gitlab,
    Discord,
    Twitch,
    Reddit,
    Twitter,
    Shopify,
    Slack,
    Stripe,
    OpenAi,
    Anthropic,
    Linear,
    AzureArm,
    MsGraph,
    Aws,
    Google,
    Sentry,
    Okta,
    Zendesk,
    Hubspot,
    Notion,
    Atlassian,
    Cloudflare,
}

/// How a quota comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refill {
    /// All at once, at the reset.
    Window,
    /// Bit by bit, whole at the reset.
    Gradual,
}

/// What one bucket of the API is, before any response has named one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grouping {
    /// Everything one identity sends to a host.
    Host,
    /// Each route on its own.
    Route,
}

struct Facts {
    name: &'static str,
    family: Family,
    /// Statuses that always mean a limit.
    limits_with: &'static [u16],
    /// Statuses that may mean one, as the body or the headers say.
    may_limit_with: &'static [u16],
    refill: Refill,
    grouping: Grouping,
    /// Whether a response's bucket says what to count its route under from then on.
    discovers: bool,
}

const USUAL: Facts = Facts {
    name: "",
    family: Family::Generic,
    limits_with: &[429],
    may_limit_with: &[],
    refill: Refill::Window,
    grouping: Grouping::Host,
    discovers: false,
};

macro_rules! presets {
    ($($(#[$doc:meta])* $constant:ident = $facts:expr;)*) => {
        impl Preset {
            $($(#[$doc])* pub const $constant: Self = Self(&$facts);)*

            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$constant),*];
        }
    };
}

presets! {
    /// Anything that speaks one of the common families of headers.
    GENERIC = Facts { name: "generic", ..USUAL };
    /// The IETF draft, in every form it has had.
    IETF = Facts { name: "ietf", family: Family::Ietf, may_limit_with: &[503], ..USUAL };
    /// GitHub: primary limits by resource, secondary limits, 403 or 429.
    GITHUB = Facts {
        name: "github", family: Family::Github, may_limit_with: &[403, 200], grouping: Grouping::Route,
        discovers: true, ..USUAL
    };
    /// GitLab.
    GITLAB = Facts { name: "gitlab", family: Family::Gitlab, discovers: true, grouping: Grouping::Route, ..USUAL };
    /// Discord: buckets with a hash, a global limit, and one on invalid requests.
    DISCORD = Facts { name: "discord", family: Family::Discord, grouping: Grouping::Route, discovers: true, ..USUAL };
    /// Twitch Helix.
    TWITCH = Facts { name: "twitch", family: Family::Twitch, refill: Refill::Gradual, ..USUAL };
    /// Reddit.
    REDDIT = Facts { name: "reddit", family: Family::Reddit, ..USUAL };
    /// X, formerly Twitter.
    TWITTER = Facts { name: "twitter", family: Family::Twitter, grouping: Grouping::Route, ..USUAL };
    /// Shopify, REST and GraphQL.
    SHOPIFY = Facts {
        name: "shopify", family: Family::Shopify, may_limit_with: &[200], refill: Refill::Gradual,
        discovers: true, ..USUAL
    };
    /// Slack: a limit per method, told only when it is met.
    SLACK = Facts { name: "slack", family: Family::Slack, grouping: Grouping::Route, ..USUAL };
    /// Stripe: nothing is told but that a limit was met.
    STRIPE = Facts { name: "stripe", family: Family::Stripe, ..USUAL };
    /// OpenAI, and whoever speaks its language: requests and tokens.
    OPENAI = Facts { name: "openai", family: Family::OpenAi, refill: Refill::Gradual, ..USUAL };
    /// Azure OpenAI.
    AZURE_OPENAI = Facts { name: "azure-openai", family: Family::OpenAi, refill: Refill::Gradual, ..USUAL };
    /// Anthropic.
    ANTHROPIC = Facts {
        name: "anthropic", family: Family::Anthropic, limits_with: &[429, 529], refill: Refill::Gradual, ..USUAL
    };
    /// Linear: requests and complexity.
    LINEAR = Facts {
        name: "linear", family: Family::Linear, may_limit_with: &[400, 200], refill: Refill::Gradual, ..USUAL
    };
    /// Azure Resource Manager.
    AZURE_ARM = Facts { name: "azure-arm", family: Family::AzureArm, grouping: Grouping::Route, ..USUAL };
    /// Microsoft Graph and SharePoint.
    MSGRAPH = Facts {
        name: "msgraph", family: Family::MsGraph, limits_with: &[429, 503], grouping: Grouping::Route, ..USUAL
    };
    /// Amazon Web Services.
    AWS = Facts { name: "aws", family: Family::Aws, may_limit_with: &[400, 503], grouping: Grouping::Route, ..USUAL };
    /// Google's APIs.
    GOOGLE = Facts { name: "google", family: Family::Google, may_limit_with: &[403], ..USUAL };
    /// Sentry, its API and its intake.
    SENTRY = Facts { name: "sentry", family: Family::Sentry, grouping: Grouping::Route, ..USUAL };
    /// Okta.
    OKTA = Facts { name: "okta", family: Family::Okta, grouping: Grouping::Route, ..USUAL };
    /// Zendesk.
    ZENDESK = Facts { name: "zendesk", family: Family::Zendesk, ..USUAL };
    /// HubSpot.
    HUBSPOT = Facts { name: "hubspot", family: Family::Hubspot, ..USUAL };
    /// Notion.
    NOTION = Facts { name: "notion", family: Family::Notion, limits_with: &[429, 529], ..USUAL };
    /// Atlassian, Cloud and Data Center.
    ATLASSIAN = Facts { name: "atlassian", family: Family::Atlassian, limits_with: &[429, 503], ..USUAL };
    /// Cloudflare's API.
    CLOUDFLARE = Facts { name: "cloudflare", family: Family::Cloudflare, ..USUAL };
}

impl Preset {
    /// What it is called in every language.
    pub const fn name(self) -> &'static str {
        self.0.name
    }

    pub(crate) const fn family(self) -> Family {
        self.0.family
    }

    pub(crate) fn limits_with(self, status: u16) -> bool {
        self.0.limits_with.contains(&status)
    }

    /// Whether a response of this status can be a refusal, so that its body is worth a look.
    pub fn may_limit_with(self, status: u16) -> bool {
        self.limits_with(status) || self.0.may_limit_with.contains(&status)
    }

    pub(crate) const fn refill(self) -> Refill {
        self.0.refill
    }

    pub(crate) const fn grouping(self) -> Grouping {
        self.0.grouping
    }

    pub(crate) const fn discovers(self) -> bool {
        self.0.discovers
    }
}

impl FromStr for Preset {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        Self::ALL.iter().copied().find(|preset| preset.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|preset| preset.name()).collect();
            let detail = format!("must be one of {}, got {name:?}", names.join(", "));
            Error::argument_error(ErrorKind::InvalidArgument, "preset", detail)
        })
    }
}

impl PartialEq for Preset {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Preset {}

impl fmt::Debug for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Preset").field(&self.name()).finish()
    }
}

/// Header names of an API that no preset knows. A reset may be in any of the usual forms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeaderNames {
    /// Units per window.
    pub limit: Cow<'static, str>,
    /// Units left.
    pub remaining: Cow<'static, str>,
    /// When the window ends.
    pub reset: Cow<'static, str>,
    /// In place of `Retry-After`.
    pub retry_after: Option<Cow<'static, str>>,
    /// What the request is counted under.
    pub bucket: Option<Cow<'static, str>>,
    /// Which limit it is about.
    pub scope: Option<Cow<'static, str>>,
}
