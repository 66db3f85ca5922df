//! A value that is read as what it should be.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use super::{Decoder, Place, Placed, Reach, Refusal, Table, Wrong, nearest};
use crate::base::units::{ByteSize, Period};
use crate::config::document::{Node, Span, Value};
use crate::config::secrets::Text;

/// A value of the file while it is read.
#[derive(Debug)]
pub(in crate::config) struct Field<'d, 'a> {
    pub decoder: &'d mut Decoder<'a>,
    pub place: Place,
    /// Where its key stands; where it stands itself if it is in a list.
    pub(super) key_span: Span,
    pub(super) node: &'a Node,
}

impl<'a> Field<'_, 'a> {
    /// A value at the root of a document.
    pub(in crate::config) fn root<'d>(decoder: &'d mut Decoder<'a>, node: &'a Node) -> Field<'d, 'a> {
        Field {
            decoder,
            place: Place { path: String::new(), span: node.span.clone() },
            key_span: node.span.clone(),
            node,
        }
    }

    /// Reads, and notes what is wrong.
    pub(in crate::config) fn noted<T>(
        mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Refusal>,
    ) -> Option<Placed<T>> {
        match read(&mut self) {
            Ok(value) => Some(Placed { place: self.place, value }),
            Err(Refusal::Noted) => None,
            Err(Refusal::Wrong(wrong)) => {
                self.decoder.note(&self.place, wrong);
                None
            }
        }
    }

    /// A table of ours: a key that is not asked for is a fault.
    pub(in crate::config) fn table<T>(
        &mut self,
        read: impl FnOnce(&mut Table<'_, 'a>) -> T,
    ) -> Result<T, Refusal> {
        self.open_table(|table| {
            let value = read(table);
            table.refuse_unknown();
            value
        })
    }

    /// A table that may have keys of others.
    pub(in crate::config) fn open_table<T>(
        &mut self,
        read: impl FnOnce(&mut Table<'_, 'a>) -> T,
    ) -> Result<T, Refusal> {
        let Value::Table(members) = &self.node.value else {
            return Err(self.unexpected("a table").into());
        };
        let mut table = Table {
            decoder: self.decoder,
            place: Place { path: self.place.path.clone(), span: self.key_span.clone() },
            members,
            asked: Vec::new(),
        };
        Ok(read(&mut table))
    }

    /// A list; items that are wrong are noted and left out.
    pub(in crate::config) fn list<T>(
        &mut self,
        read: impl Fn(&mut Field<'_, 'a>) -> Result<T, Refusal>,
    ) -> Result<Vec<T>, Refusal> {
        let Value::List(nodes) = &self.node.value else {
            return Err(self.unexpected("a list").into());
        };
        let mut list = Vec::with_capacity(nodes.len());
        for (index, node) in nodes.iter().enumerate() {
            let item = Field {
                decoder: self.decoder,
                place: Place { path: format!("{}[{index}]", self.place.path), span: node.span.clone() },
                key_span: node.span.clone(),
                node,
            };
            list.extend(item.noted(&read).map(|placed| placed.value));
        }
        Ok(list)
    }

    /// A list of texts as they stand in the file.
    pub(in crate::config) fn words(&mut self) -> Result<Vec<String>, Refusal> {
        self.list(|item| Ok(item.text()?.reveal().to_owned()))
    }

    /// Whether it is a list.
    pub(in crate::config) fn is_list(&self) -> bool {
        matches!(self.node.value, Value::List(_))
    }

    /// A text, its placeholders replaced.
    pub(in crate::config) fn text(&mut self) -> Result<Text, Refusal> {
        let Value::Text(text) = &self.node.value else {
            return Err(self.unexpected("a text").into());
        };
        self.decoder.variables.expand(text).map_err(|unresolved| {
            for error in unresolved {
                let wrong = Wrong::new(error.to_string()).mend(error.mend());
                self.decoder.note(&self.place, wrong.reaching(Reach::Entry));
            }
            Refusal::Noted
        })
    }

    /// A text, a number or a truth value, as the text it is written as.
    pub(in crate::config) fn scalar(&mut self) -> Result<Text, Refusal> {
        match &self.node.value {
            Value::Number(written) => Ok(Text::plain(written)),
            Value::Bool(value) => Ok(Text::plain(value.to_string())),
            _ => self.text(),
        }
    }

    /// A text or number that something reads.
    pub(in crate::config) fn parsed<T>(
        &mut self,
        allowed: &str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<T, Refusal> {
        if matches!(self.node.value, Value::List(_) | Value::Table(_) | Value::Null) {
            return Err(self.unexpected(allowed).into());
        }
        let text = self.scalar()?;
        parse(text.reveal()).ok_or_else(|| wrong_value(&text, allowed).into())
    }

    /// True or false.
    pub(in crate::config) fn flag(&mut self) -> Result<bool, Refusal> {
        self.parsed("true or false", |text| text.parse().ok())
    }

    /// A whole number within bounds.
    pub(in crate::config) fn count(&mut self, bounds: RangeInclusive<usize>) -> Result<usize, Refusal> {
        let allowed = format!("a whole number {}", between(&bounds, ToString::to_string));
        self.parsed(&allowed, |text| {
            let digits: String = text.chars().filter(|c| *c != '_').collect();
            digits.parse().ok().filter(|count| bounds.contains(count))
        })
    }

    /// A number of bytes within bounds.
    pub(in crate::config) fn size(&mut self, bounds: RangeInclusive<usize>) -> Result<usize, Refusal> {
        let limits = between(&bounds, |bytes| ByteSize::display(*bytes));
        let allowed = format!("{}, {limits}", ByteSize::ALLOWED);
        self.parsed(&allowed, |text| {
            let size = ByteSize::parse(text).ok()?;
            bounds.contains(&size).then_some(size)
        })
    }

    /// A duration within bounds; 0 only if that is among them.
    pub(in crate::config) fn period(
        &mut self,
        bounds: RangeInclusive<Duration>,
    ) -> Result<Duration, Refusal> {
        let limits = between(&bounds, |period| Period::display(*period));
        let allowed = format!("{}, {limits}", Period::ALLOWED);
        self.parsed(&allowed, |text| {
            let period = Period::parse(text).ok()?;
            bounds.contains(&period).then_some(period)
        })
    }

    /// One of several words.
    pub(in crate::config) fn choice<T: Copy>(&mut self, choices: &[(&'static str, T)]) -> Result<T, Refusal> {
        let words = || choices.iter().map(|(word, _)| *word);
        let allowed = words().collect::<Vec<_>>().join(", ");
        let text = self.text()?;
        if let Some((_, choice)) = choices.iter().find(|(word, _)| *word == text.reveal()) {
            return Ok(*choice);
        }
        let mut wrong = wrong_value(&text, &format!("one of {allowed}"));
        if let Some(meant) = nearest(text.reveal(), words()).filter(|_| !text.is_secret()) {
            wrong = wrong.mend(format!("did you mean `{meant}`?\nallowed: one of {allowed}"));
        }
        Err(wrong.into())
    }

    /// An address to listen on.
    pub(in crate::config) fn socket(&mut self) -> Result<SocketAddr, Refusal> {
        let allowed = "an address with a port, such as 127.0.0.1:7420 or [::1]:7420; \
                       port 0 picks a free one";
        self.parsed(allowed, parse_socket)
    }

    /// A path, made absolute.
    pub(in crate::config) fn path(&mut self) -> Result<PathBuf, Refusal> {
        let text = self.text()?;
        if text.reveal().is_empty() || text.reveal().contains('\0') {
            return Err(wrong_value(&text, "a path").into());
        }
        Ok(self.decoder.variables.path(text.reveal()))
    }

    /// What is said of a value of the wrong kind.
    fn unexpected(&self, allowed: &str) -> Wrong {
        let kind = self.node.value.kind();
        Wrong::new(format!("this is {kind}")).mend(format!("allowed: {allowed}"))
    }
}

/// What is said of a value that is not allowed; it is shown unless it came from elsewhere.
pub(in crate::config) fn wrong_value(text: &Text, allowed: &str) -> Wrong {
    let allowed = format!("allowed: {allowed}");
    if text.is_secret() {
        let message = "the value, which comes from a variable or a file, is not allowed";
        Wrong::new(message).mend(allowed).reaching(Reach::Entry)
    } else {
        Wrong::new(format!("`{}` is not allowed", text.reveal())).mend(allowed)
    }
}

/// An address with a port; `localhost` is understood as 127.0.0.1.
fn parse_socket(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = SocketAddr::from_str(text) {
        return Some(address);
    }
    let (host, port) = text.rsplit_once(':')?;
    let ip: IpAddr = match host {
        "localhost" => Ipv4Addr::LOCALHOST.into(),
        _ => return None,
    };
    Some((ip, port.parse().ok()?).into())
}

fn between<T: PartialOrd>(bounds: &RangeInclusive<T>, show: impl Fn(&T) -> String) -> String {
    format!("from {} to {}", show(bounds.start()), show(bounds.end()))
}
