package loki

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"sf2loki/pkg/record"
	"sf2loki/pkg/sysexits"
)

// Judge says what an answer means. It never says Stored but for a status of
// 204, or of 200 with an empty or a JSON body that reports no error: any other
// 2xx comes from a block (260) or from somebody who is not Loki.
//
// The texts are templates of Loki's distributor, ingester and push parser.
// They quote label sets, tenants and excerpts of what was sent, so they are
// matched by structure, with the label sets taken out: a label value can hold
// any of these texts.
func Judge(a Answer) Verdict {
	v := Verdict{Status: a.Status, RetryAfter: a.RetryAfter, Code: sysexits.Config}
	if a.Err != nil || a.Status == 0 {
		return judgeSilence(v, a.Err)
	}
	v.Detail = cleanDetail([]byte(a.secrets.Hide(string(a.Body))))
	b := newBody(a)
	switch {
	case a.Status == http.StatusNoContent:
		return Verdict{Class: Stored, Status: a.Status}
	case a.Status == http.StatusOK:
		return judgeOK(v, a, &b)
	case strings.HasPrefix(b.bare(), "ingestion blocked for user"):
		return misconfigured(v, "the tenant's ingestion is blocked (block_ingestion_until)")
	case a.Status >= 300 && a.Status < 400:
		if a.Location != "" {
			v.Detail = cutText("redirect to "+a.Location, record.MaxDetail)
		}
		return misconfigured(v, "redirects are not followed: give the final address")
	case a.Status == http.StatusBadRequest:
		return judgeBadRequest(v, &b)
	case a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden, a.Status == http.StatusProxyAuthRequired:
		return judgeUnauthorized(v, &b)
	case a.Status == http.StatusNotFound, a.Status == http.StatusMethodNotAllowed:
		return misconfigured(v, "is the path of the URL right? Loki's is "+PushPath)
	case a.Status == http.StatusRequestEntityTooLarge:
		v.Class, v.Code = TooLarge, sysexits.DataErr
		v.Limit = numberAfter(b.text, " vs ")
		v.LimitCompressed = !strings.Contains(b.text, "decompressed")
		return v
	case a.Status == http.StatusTooManyRequests:
		return judgeTooMany(v, &b)
	case a.Status == http.StatusRequestTimeout, a.Status == http.StatusTooEarly, a.Status == 499:
		v.Class, v.Code = Busy, sysexits.Unavailable
		return v
	case a.Status >= 500:
		return judgeServerError(v, &b)
	}
	return misconfigured(v, "")
}

// judgeSilence is for a request that got no whole answer. An error that the
// client marked as one of permission or configuration is that; every other one
// may pass by itself.
func judgeSilence(v Verdict, err error) Verdict {
	v.Status = 0
	v.Class, v.Code = Busy, sysexits.Unavailable
	if err == nil {
		err = errors.New("no answer")
	}
	v.Detail = cleanDetail([]byte(err.Error()))
	if code := sysexits.Of(err); code == sysexits.NoPerm || code == sysexits.Config {
		v.Class, v.Code = Misconfigured, code
	}
	return v
}

func judgeOK(v Verdict, a Answer, b *body) Verdict {
	text := bytes.TrimSpace(a.Body)
	switch {
	case b.cut:
		return misconfigured(v, "an answer of 200 with a body longer than any that Loki writes")
	case len(text) == 0, json.Valid(text) && !reportsError(text):
		return Verdict{Class: Stored, Status: a.Status}
	case b.html, text[0] == '{', text[0] == '[':
		v.Class, v.Hint = NotLoki, notLokiHint
		return v
	}
	return misconfigured(v, "an answer of 200 whose body Loki does not write")
}

const notLokiHint = "the answer is not Loki's: a proxy, a login page or another service is at this address"

// reportsError tells whether a JSON answer of 200 says itself that it failed,
// as gateways do that put the error into the body.
func reportsError(text []byte) bool {
	var said struct {
		Status any `json:"status"`
		Error  any `json:"error"`
		Errors any `json:"errors"`
	}
	if json.Unmarshal(text, &said) != nil {
		return false // no object: nothing that says so
	}
	return said.Status == "error" || truthy(said.Error) || truthy(said.Errors)
}

func truthy(v any) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case float64:
		return v != 0
	case []any:
		return len(v) > 0
	}
	return true
}

func judgeUnauthorized(v Verdict, b *body) Verdict {
	v.Class, v.Code = Misconfigured, sysexits.NoPerm
	switch {
	case v.Status == http.StatusProxyAuthRequired:
		v.Hint = "the proxy asks for credentials"
	case strings.Contains(b.text, "no org id"):
		v.Hint = "this Loki wants a tenant (X-Scope-OrgID)"
	default:
		v.Hint = "check tenant, user and password or token"
	}
	return v
}

func judgeTooMany(v Verdict, b *body) Verdict {
	v.Class, v.Code, v.Sharded = RateLimited, sysexits.Unavailable, b.sharded
	text := b.bare()
	switch {
	case strings.HasPrefix(text, "maximum active stream limit exceeded"):
		v.Class = StreamLimit
		v.Hint = "the tenant has too many active streams: fewer labels, or raise max_global_streams_per_user"
	case strings.Contains(text, "reason: 'Per stream rate limit exceeded"):
		v.Class = StreamRate
		v.Limit = sizeAfter(text, "(limit: ")
		v.Hint = "slow this stream down, or raise per_stream_rate_limit"
	case strings.HasPrefix(text, "ingestion rate limit exceeded"):
		v.Limit = numberAfter(text, "(limit: ")
		v.Bytes = numberAfter(text, "totaling '")
		v.Hint = "slow down, or raise ingestion_rate_mb and ingestion_burst_size_mb"
	}
	return v
}

func judgeServerError(v Verdict, b *body) Verdict {
	v.Class, v.Code = Busy, sysexits.Unavailable
	text := b.bare()
	switch {
	case strings.Contains(text, "message larger than max"):
		v.Class, v.Code = TooLarge, sysexits.DataErr
		v.Limit = numberAfter(text, " vs. ")
	case !b.html && strings.HasPrefix(text, "label name is empty"),
		!b.html && strings.HasPrefix(text, "normalization for label name "):
		v.Class, v.Code = Refused, sysexits.DataErr
		v.Faults = []Fault{{Kind: KindMetadataName, Reason: record.InvalidMetadata}}
	}
	return v
}

func judgeBadRequest(v Verdict, b *body) Verdict {
	if b.html || b.binary {
		v.Class, v.Hint = NotLoki, notLokiHint
		return v
	}
	for _, c := range configTexts {
		if c.match(b.bare()) {
			if c.hint == notJSON {
				v.Detail, _, _ = strings.Cut(v.Detail, ": ") // behind it stands what was sent
			}
			return misconfigured(v, c.hint)
		}
	}
	v.Code, v.Sharded = sysexits.DataErr, b.sharded
	v.Faults, v.Class = readFaults(b)
	if b.json && v.Faults[0].Kind == KindOther {
		v.Faults, v.Class, v.Code, v.Hint = nil, NotLoki, sysexits.Config, notLokiHint
	}
	return v
}

func misconfigured(v Verdict, hint string) Verdict {
	v.Class, v.Code, v.Hint = Misconfigured, sysexits.Config, hint
	return v
}

// configText is a text of a 400 that no entry is to blame for: nothing that was
// sent would have been taken.
type configText struct {
	prefix, contains string
	hint             string
}

func (c configText) match(text string) bool {
	return strings.HasPrefix(text, c.prefix) && strings.Contains(text, c.contains)
}

const (
	tenantHint = "the server refuses this tenant (X-Scope-OrgID)"
	mangled    = "the server could not decode the request: does something on the way change it?"
	notJSON    = "the server could not read the JSON in the request: does something on the way change it?"
)

var configTexts = []configText{
	{"tenant ID ", "", tenantHint},
	{"multiple org IDs present", "", tenantHint},
	{"no org id", "", tenantHint},
	{"Content-Encoding ", "not supported", "the server does not take this encoding"},
	{"mime: ", "", mangled},
	{"snappy: ", "", mangled},
	{"gzip: ", "", mangled},
	{"flate: ", "", mangled},
	{"proto: ", "", mangled},
	{"unexpected EOF", "", mangled},
	{"EOF", "", mangled},
	{"loghttp.", "", notJSON},
	{"http: ", "", mangled},
	// Go's own HTTP server, in front of any handler.
	{"400 Bad Request", "", mangled},
	{"Client sent an HTTP request to an HTTPS server", "", "the URL must begin with https"},
	// VictoriaLogs.
	{"unsupported path requested", "", "VictoriaLogs takes pushes at /insert/loki/api/v1/push"},
	{"cannot parse common params", "", "VictoriaLogs takes a number, or two with a colon, as tenant"},
	{"cannot read Loki ", "cannot decompress", mangled},
	{"cannot read Loki ", "cannot parse JSON", notJSON},
	{"cannot read Loki ", "unsupported contentType", "the server does not take this encoding"},
}
