package salesforce

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"net/url"
	"strings"
	"time"

	"sf2loki/pkg/sysexits"
)

// ErrShort is the cause of an error of KindLocator when an answer said that it
// was complete and held fewer records than it told of. Of a Big Object the
// number is only a hint, and of a query with a LIMIT it may count what is
// beyond it: who knows better passes over the error.
var ErrShort = errors.New("the rest has not come")

// Query runs a SOQL query and gives its records, fetching page after page as
// they are used up. An error ends it. One of KindLocator means that the rest
// has expired: run the query again from where the records left off.
func (c *Client) Query(ctx context.Context, soql string) iter.Seq2[json.RawMessage, error] {
	return c.query(ctx, "query?q="+url.QueryEscape(soql))
}

func (c *Client) query(ctx context.Context, path string) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		var total, n int64
		seen := pathSet{seed: maphash.MakeSeed(), sums: map[uint64]bool{}}
		mine := turn{c: c}
		defer mine.pass()
		for {
			seen.add(path)
			page, err := c.page(ctx, path, &mine)
			if e := (*Error)(nil); errors.As(err, &e) && e.Kind == KindNotFound && !isFirst(path) {
				e.Kind = KindLocator // what the path leads to is a rest that is no longer there
				err = sysexits.Wrap(e.Kind.ExitCode(), e)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			total = max(total, page.Total)
			n += int64(len(page.Records))
			for _, rec := range page.Records {
				if !yield(rec, nil) {
					return
				}
			}
			page.Records = nil // whoever is next has the room for it
			mine.pass()
			if *page.Done {
				if n < total {
					yield(nil, coded(&Error{Op: "query", Kind: KindLocator, Err: ErrShort,
						Message: fmt.Sprintf("the answer told of %d records and held %d", total, n)}))
				}
				return
			}
			if path = page.Next; seen.has(path) {
				yield(nil, coded(&Error{Op: "query", Kind: KindNotJSON, Message: "the pages of the answer lead round in a circle"}))
				return
			}
		}
	}
}

// pathSet remembers paths by their hashes: there may be as many as a server
// likes, and as long.
type pathSet struct {
	seed maphash.Seed
	sums map[uint64]bool
}

func (p pathSet) add(path string)      { p.sums[maphash.String(p.seed, path)] = true }
func (p pathSet) has(path string) bool { return p.sums[maphash.String(p.seed, path)] }

type page struct {
	Total   int64             `json:"totalSize"`
	Done    *bool             `json:"done"`
	Next    string            `json:"nextRecordsUrl"`
	Records []json.RawMessage `json:"records"`
}

func (c *Client) page(ctx context.Context, path string, t *turn) (page, error) {
	var p page
	err := c.do(ctx, "query", path, func(a *answer) error {
		p = page{}
		body, err := a.readJSON(t)
		if err != nil {
			return err
		}
		odd := &Error{Op: "query", Kind: KindNotJSON, Status: a.status}
		switch err := json.Unmarshal(body, &p); {
		case err != nil, p.Done == nil, p.Records == nil:
			odd.Message = "the answer is no query result"
			return odd
		case *p.Done && len(p.Records) == 0 && p.Total > 0 && isFirst(path):
			odd.Message = fmt.Sprintf("the answer tells of %d records and holds none", p.Total)
			return odd
		case !*p.Done && (p.Next == "" || p.Next == path):
			odd.Message = "the answer says that there is more, but not where"
			return odd
		}
		for _, rec := range p.Records {
			if len(rec) == 0 || rec[0] != '{' {
				odd.Message = "the answer holds a record that is no object"
				return odd
			}
		}
		return nil
	})
	return p, err
}

// isFirst tells a query's first page from those that follow.
func isFirst(path string) bool { return strings.Contains(path, "query?q=") }

// Get gives a JSON answer, whole. A path without a slash in front is below
// /services/data/vNN.0/, as "limits/".
func (c *Client) Get(ctx context.Context, path string) ([]byte, error) {
	var body []byte
	mine := turn{c: c}
	defer mine.pass()
	err := c.do(ctx, "get", path, func(a *answer) error {
		var err error
		body, err = a.readJSON(&mine)
		return err
	})
	return body, err
}

// Open begins a download. The body is the file as it comes, without
// compression; it has been found to be neither a page nor JSON, and may be
// empty. Reading it has no bound in time as long as it moves. The caller
// closes it, and asks anew when a read fails.
func (c *Client) Open(ctx context.Context, path string) (io.ReadCloser, error) {
	var body io.ReadCloser
	err := c.do(ctx, "download", path, func(a *answer) error {
		var err error
		body, err = a.open()
		return err
	})
	return body, err
}

// Quote makes a SOQL string literal of s.
func Quote(s string) string {
	var b strings.Builder
	b.WriteByte('\'')
	for _, r := range s {
		switch r {
		case '\'', '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case '\n':
			b.WriteString(`\n`)
		case '\r':
			b.WriteString(`\r`)
		case '\t':
			b.WriteString(`\t`)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// QuoteList makes a SOQL list of string literals, as after IN.
func QuoteList(list []string) string {
	quoted := make([]string, len(list))
	for i, s := range list {
		quoted[i] = Quote(s)
	}
	return "(" + strings.Join(quoted, ",") + ")"
}

// DateTime makes a SOQL dateTime literal, in UTC with milliseconds. The form
// that REST answers with, +0000 without a colon, is none that SOQL promises to take.
func DateTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// ParseTime reads a time as REST gives it, 2026-07-01T10:00:00.000+0000, and
// every RFC 3339 form.
func ParseTime(s string) (time.Time, error) {
	if t, err := time.Parse("2006-01-02T15:04:05.999999999Z0700", s); err == nil {
		return t.UTC(), nil
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	return t.UTC(), err
}
