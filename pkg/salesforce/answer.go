package salesforce

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"
)

// answer is a response whose silences are bounded.
type answer struct {
	op     string
	status int
	header http.Header

	c      *Client
	ctx    context.Context // the caller's
	inner  context.Context // ends with ctx, and when the answer falls silent
	cancel context.CancelCauseFunc
	body   io.ReadCloser
	timer  *time.Timer
	once   sync.Once
}

var (
	errNoAnswer = errors.New("no answer in time")
	errStalled  = errors.New("the body stalled")
)

// send makes one request. Its headers must come in time; afterwards each read
// of the body must.
func (c *Client) send(ctx context.Context, op string, patience time.Duration, req *http.Request) (*answer, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	inner, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(patience, func() { cancel(errNoAnswer) })
	req = req.WithContext(inner)
	req.Header.Set("User-Agent", c.set.UserAgent)
	start := time.Now()
	resp, err := c.set.HTTP.Do(req)
	timer.Stop()
	status := 0
	if err == nil {
		status = resp.StatusCode
	}
	if c.set.Hooks.Request != nil {
		c.set.Hooks.Request(status, time.Since(start))
	}
	c.set.Log.Debug("request", "op", op, "host", req.URL.Host, "path", req.URL.Path, "status", status, "dur", time.Since(start))
	a := &answer{op: op, status: status, c: c, ctx: ctx, inner: inner, cancel: cancel}
	if err != nil {
		err = a.fault(plainCause(err))
		cancel(nil)
		return nil, err
	}
	a.header, a.body = resp.Header, resp.Body
	a.timer = time.AfterFunc(c.set.Timeout.Idle, func() { cancel(errStalled) })
	a.timer.Stop()
	c.observe(resp.Header)
	return a, nil
}

// plainCause drops the method and URL that net/http puts in front: the op says
// what was asked, and a URL may be long.
func plainCause(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}

// fault tells why a request or its body broke off.
func (a *answer) fault(err error) error {
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx)
	}
	kind := KindTransport
	switch cause := context.Cause(a.inner); {
	case errors.Is(cause, errNoAnswer):
		kind, err = KindTimeout, errNoAnswer
	case errors.Is(cause, errStalled):
		kind, err = KindTimeout, fmt.Errorf("nothing came for %v", a.c.set.Timeout.Idle)
	}
	return &Error{Op: a.op, Kind: kind, Err: a.c.set.Secrets.Error(err)} // it quotes what is no HTTP
}

// Read reads the body. An early end is an *Error that is also
// io.ErrUnexpectedEOF.
func (a *answer) Read(p []byte) (int, error) {
	a.timer.Reset(a.c.set.Timeout.Idle)
	n, err := a.body.Read(p)
	a.timer.Stop()
	if err != nil && err != io.EOF {
		err = a.fault(fmt.Errorf("body broke off: %w", err))
	}
	return n, err
}

// Close gives the connection back, or up when there is more to read.
func (a *answer) Close() error {
	a.once.Do(func() {
		a.timer.Stop()
		a.body.Close()
		a.cancel(nil)
	})
	return nil
}

// readAll reads a whole body of at most max bytes.
func (a *answer) readAll(max int64) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(a, max+1))
	if err != nil {
		return nil, err
	}
	if int64(len(body)) > max {
		return nil, a.tooLong(max)
	}
	return body, nil
}

func (a *answer) tooLong(max int64) error {
	return &Error{Op: a.op, Kind: KindOther, Status: a.status, Message: fmt.Sprintf("an answer of more than %d bytes", max)}
}

// readSome reads the beginning of a body.
func (a *answer) readSome(max int64) ([]byte, error) {
	return io.ReadAll(io.LimitReader(a, max))
}

// maxJSONBody bounds a JSON answer; a page of 2,000 rows is far below.
const maxJSONBody = 64 << 20

// readJSON reads a 2xx body that must be JSON and no error.
func (a *answer) readJSON(t *turn) ([]byte, error) {
	defer a.Close()
	body, err := a.readInTurn(maxJSONBody, t)
	if err != nil {
		return nil, err
	}
	trimmed := bytes.TrimSpace(body)
	refuse := func(text string) error {
		e := a.c.judge(classify, a, trimmed[:min(len(trimmed), maxErrorBody)])
		if e.Message == "" {
			e.Message = text
		}
		return e
	}
	switch {
	case len(trimmed) == 0:
		return nil, refuse("an empty answer where JSON was expected")
	case trimmed[0] != '{' && trimmed[0] != '[':
		return nil, refuse("")
	case !json.Valid(trimmed):
		return nil, &Error{Op: a.op, Kind: KindNotJSON, Status: a.status, Message: "the answer's JSON is incomplete or damaged"}
	}
	if trimmed[0] == '[' {
		if c := readComplaint(trimmed); c.code != "" {
			return nil, refuse("")
		}
	}
	return body, nil
}

// peekBytes is how much of a download is looked at before it is handed on.
const peekBytes = 512

// download is a 2xx body that has been found to be no page and no JSON.
type download struct {
	*bufio.Reader
	a *answer
}

func (d *download) Close() error { return d.a.Close() }

// open looks at the first bytes of a 2xx body, which may be empty.
func (a *answer) open() (io.ReadCloser, error) {
	r := bufio.NewReaderSize(a, 64<<10)
	head, err := r.Peek(peekBytes)
	if err != nil && err != io.EOF {
		a.Close()
		return nil, err
	}
	text := bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\ufeff")), " \t\r\n")
	if len(text) == 0 || text[0] != '<' && text[0] != '{' && text[0] != '[' {
		return &download{r, a}, nil
	}
	defer a.Close()
	body, _ := io.ReadAll(io.LimitReader(r, maxErrorBody)) // the beginning is enough to judge it
	return nil, a.c.judge(classify, a, body)
}
