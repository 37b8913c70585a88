package salesforce

import (
	"cmp"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"

	"sf2loki/pkg/sysexits"
)

// Kind tells what sort of refusal an Error is. Callers branch on it.
type Kind int

// The kinds. Those that Temporary reports are tried again by the client itself
// before a caller sees them.
const (
	KindOther           Kind = iota
	KindAuth                 // credentials refused, or a session that a new login did not mend
	KindConfig               // the request goes to the wrong place: audience, host, redirect
	KindPermission           // the user lacks a right, or the org a licence
	KindLoginRate            // too many logins in the last hour
	KindLimitTotal           // the day's API allowance is used up
	KindLimitConcurrent      // too many long requests at this moment
	KindReserve              // our own --api-reserve
	KindNotFound             // no such record, or one that was purged
	KindNotJSON              // a page or text where JSON or a file was expected: maintenance, wrong host
	KindTimeout              // no answer in time, or a body that stalled
	KindTransport            // no connection, or one that broke
	KindTransient            // the server says that it is its own trouble
	KindQuery                // SOQL that the server does not accept
	KindField                // no such column, or one that the user may not see
	KindType                 // no such object, or one that the user may not see
	KindLocator              // the rest of a result has expired: run the query again from the cursor
	KindQueryTimeout         // the query ran too long: narrow it
	KindBigObject            // a Big Object does not do this: ascending order, aggregates
)

var kindNames = [...]string{"other", "auth", "config", "permission", "login_rate", "limit_total", "limit_concurrent", "reserve",
	"not_found", "not_json", "timeout", "transport", "transient", "query", "field", "type", "locator", "query_timeout", "big_object"}

func (k Kind) String() string { return kindNames[k] }

// Temporary reports whether the same request may do better a moment later.
func (k Kind) Temporary() bool {
	switch k {
	case KindLimitConcurrent, KindNotJSON, KindTimeout, KindTransport, KindTransient:
		return true
	}
	return false
}

// ExitCode is the status of a program that gives up on an error of this kind.
func (k Kind) ExitCode() sysexits.Code {
	switch k {
	case KindAuth, KindPermission:
		return sysexits.NoPerm
	case KindTimeout, KindTransport:
		return sysexits.Unavailable
	case KindLoginRate, KindLimitTotal, KindLimitConcurrent, KindReserve, KindNotJSON, KindTransient, KindLocator, KindQueryTimeout:
		return sysexits.TempFail
	case KindQuery, KindBigObject:
		return sysexits.Software
	}
	return sysexits.Config
}

// exitCode is that of the kind. A query that is refused is a fault of this
// program, unless it can be mended from outside: then too much was asked for.
func (e *Error) exitCode() sysexits.Code {
	if e.Kind == KindQuery && e.Cure != "" {
		return sysexits.Config
	}
	return e.Kind.ExitCode()
}

// Error is a request that Salesforce, or the way there, did not fulfil.
type Error struct {
	Kind    Kind
	Op      string // "log in", "query", "get", "download"
	Path    string // of what was to be got or downloaded
	Status  int    // HTTP status; 0 when there was no answer
	Code    string // Salesforce's errorCode, or OAuth's error
	Message string // Salesforce's own words, shortened
	Cure    string // what to do about it, when that is known
	Err     error  // the cause, when it was no answer
}

func (e *Error) Error() string {
	parts := []string{strings.TrimSpace(e.Op + " " + e.Path)}
	if e.Status != 0 {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))))
	}
	if e.Code != "" {
		parts = append(parts, e.Code)
	}
	if e.Message != "" {
		parts = append(parts, e.Message)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

func (e *Error) Unwrap() error { return e.Err }

// Hint is the cure, for who prints the error.
func (e *Error) Hint() string { return e.Cure }

// KindOf tells the kind of err; KindOther when it is none of this package's.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindOther
}

// coded marks an *Error with its exit status; other errors stay as they are.
func coded(err error) error {
	var e *Error
	if errors.As(err, &e) && !sysexits.Coded(err) {
		return sysexits.Wrap(e.exitCode(), err)
	}
	return err
}

// complaint is what an error body says, whichever of its four forms it has.
type complaint struct {
	code, message string
	html          bool
}

// maxMessage bounds the words that are taken over from an answer.
const maxMessage = 512

func readComplaint(body []byte) complaint {
	text := strings.TrimSpace(strings.TrimPrefix(string(body), "\ufeff"))
	if text == "" {
		return complaint{}
	}
	switch text[0] {
	case '[', '{':
		if c, ok := jsonComplaint([]byte(text)); ok {
			return c
		}
	case '<':
		if c, ok := xmlComplaint([]byte(text)); ok {
			return c
		}
		return complaint{html: true, message: cmp.Or(clip(stripTags(text)), "an HTML page without a word")}
	}
	return complaint{message: clip(text)}
}

type jsonError struct {
	ErrorCode   string `json:"errorCode"`
	Message     string `json:"message"`
	Error       string `json:"error"`
	Description string `json:"error_description"`
}

func jsonComplaint(body []byte) (complaint, bool) {
	var list []jsonError
	if body[0] == '{' {
		body = append(append([]byte{'['}, body...), ']')
	}
	if json.Unmarshal(body, &list) != nil || len(list) == 0 {
		return complaint{}, false
	}
	e := list[0]
	if e.Error != "" {
		return complaint{code: clip(e.Error), message: clip(e.Description)}, true
	}
	return complaint{code: clip(e.ErrorCode), message: clip(e.Message)}, e.ErrorCode != ""
}

func xmlComplaint(body []byte) (complaint, bool) {
	var doc struct {
		Errors []struct {
			Code    string `xml:"errorCode"`
			Message string `xml:"message"`
		} `xml:"Error"`
	}
	if xml.Unmarshal(body, &doc) != nil || len(doc.Errors) == 0 {
		return complaint{}, false
	}
	return complaint{code: clip(doc.Errors[0].Code), message: clip(doc.Errors[0].Message)}, doc.Errors[0].Code != ""
}

// clip makes one short line of a text that may hold anything.
func clip(s string) string {
	words := strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	s = strings.ToValidUTF8(strings.Join(words, " "), "\ufffd")
	if len(s) > maxMessage {
		s = strings.ToValidUTF8(s[:maxMessage], "") + "..."
	}
	return s
}

func stripTags(s string) string {
	var b strings.Builder
	depth := 0
	for _, r := range s {
		switch {
		case r == '<':
			depth++
			b.WriteByte(' ')
		case r == '>' && depth > 0:
			depth--
		case depth == 0:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var kindOfCode = map[string]Kind{
	"INVALID_SESSION_ID":               KindAuth,
	"INVALID_AUTH_HEADER":              KindAuth,
	"MALFORMED_QUERY":                  KindQuery,
	"INVALID_QUERY_FILTER_OPERATOR":    KindQuery,
	"QUERY_TOO_COMPLICATED":            KindQuery,
	"OPERATION_TOO_LARGE":              KindQuery,
	"INVALID_FIELD":                    KindField,
	"INVALID_TYPE":                     KindType,
	"INVALID_QUERY_LOCATOR":            KindLocator,
	"QUERY_TIMEOUT":                    KindQueryTimeout,
	"BIG_OBJECT_UNSUPPORTED_OPERATION": KindBigObject,
	"NOT_FOUND":                        KindNotFound,
	"ENTITY_IS_DELETED":                KindNotFound,
	"INVALID_CROSS_REFERENCE_KEY":      KindNotFound,
	"SERVER_UNAVAILABLE":               KindTransient,
	"UNKNOWN_EXCEPTION":                KindTransient,
	"UNABLE_TO_LOCK_ROW":               KindTransient,
	"API_DISABLED_FOR_ORG":             KindPermission,
	"API_CURRENTLY_DISABLED":           KindPermission,
	"INSUFFICIENT_ACCESS":              KindPermission,
	"FUNCTIONALITY_NOT_ENABLED":        KindPermission,
}

// classify judges an answer by its status and by what its body says, whatever
// content type it claims.
func classify(op string, status int, header http.Header, body []byte) *Error {
	c := readComplaint(body)
	e := &Error{Op: op, Status: status, Code: c.code, Message: c.message}
	e.Kind, e.Cure = kindOf(status, c)
	if status >= 300 && status < 400 {
		e.Message = "it leads to " + redirectHost(header)
	}
	return e
}

func kindOf(status int, c complaint) (Kind, string) {
	if c.code == "REQUEST_LIMIT_EXCEEDED" {
		if strings.HasPrefix(c.message, "TotalRequests") {
			return KindLimitTotal, "the org's API calls of the last 24 hours are used up; wait, or buy more"
		}
		return KindLimitConcurrent, "too many long requests run in the org at the moment"
	}
	if k, ok := kindOfCode[c.code]; ok {
		return k, hintOf(k, c)
	}
	switch {
	case status == http.StatusUnauthorized:
		return KindAuth, ""
	case status == http.StatusForbidden:
		switch c.message {
		case "Bad_OAuth_Token", "Missing_OAuth_Token", "Wrong_Org":
			return KindAuth, ""
		}
		return KindPermission, hintOf(KindPermission, c)
	case status >= 300 && status < 400:
		return KindConfig, "redirects are not followed: give that host as --login-url if it is the org's own"
	case status == http.StatusNotFound || status == http.StatusGone:
		return KindNotFound, ""
	case status == http.StatusRequestTimeout:
		return KindTimeout, ""
	case status == http.StatusTooManyRequests || status == 420:
		return KindLimitConcurrent, ""
	case status == http.StatusRequestURITooLong || status == http.StatusRequestHeaderFieldsTooLarge:
		return KindQuery, "the request is too long: name fewer event types or users"
	case status >= 500 && c.html:
		return KindNotJSON, "an HTML page: the org is in maintenance"
	case status >= 500:
		return KindTransient, ""
	case status < 300 && c.html:
		return KindNotJSON, "an HTML page: maintenance, or when it goes on a wrong host or a dead session"
	case status < 300:
		return KindNotJSON, ""
	}
	return KindOther, ""
}

func hintOf(k Kind, c complaint) string {
	switch {
	case c.code == "API_DISABLED_FOR_ORG" || c.code == "API_CURRENTLY_DISABLED":
		return "the edition has no API, or the user's profile lacks API Enabled"
	case k == KindPermission:
		return "grant the user API Enabled and, for log files, View Event Log Files"
	case k == KindField && strings.Contains(c.message, "'Interval'"):
		return "hourly log files are not licensed for this org or not visible to this user; Daily may be"
	case k == KindField:
		return "the field does not exist, or is hidden from this user"
	case k == KindType:
		return "the object does not exist, or the user or the org has no right to it"
	case c.code == "QUERY_TOO_COMPLICATED" || c.code == "OPERATION_TOO_LARGE":
		return "ask for less at a time: name fewer event types or users"
	}
	return ""
}

func redirectHost(header http.Header) string {
	u, err := (&http.Response{Header: header}).Location()
	if err != nil || u.Host == "" {
		return "another page"
	}
	return u.Scheme + "://" + u.Host
}
