package prooftest

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// answer is one that is of no use, and how it quotes what was sent. A status of
// 0 stands for what is no HTTP.
type answer struct {
	name        string
	status      int
	contentType string
	quote       func(string) string
}

func inJSON(s string) string {
	b, _ := json.Marshal(s)
	return strings.ReplaceAll(string(b[1:len(b)-1]), "/", `\/`)
}

func inXML(s string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(s))
	return b.String()
}

func inHTML(s string) string { return strings.ReplaceAll(html.EscapeString(s), "+", "&#43;") }

// allInJSON escapes each character but letters and digits.
func allInJSON(s string) string {
	return regexp.MustCompile(`[^a-zA-Z0-9]`).ReplaceAllStringFunc(s, func(c string) string { return fmt.Sprintf(`\u%04x`, c[0]) })
}

// inLowerCase is the percent-encoding of some servers.
func inLowerCase(s string) string {
	return regexp.MustCompile(`%[0-9A-F]{2}`).ReplaceAllStringFunc(url.QueryEscape(s), strings.ToLower)
}

func plainly(s string) string { return s }

var quotings = []answer{
	{"401 JSON", 401, "application/json", inJSON},
	{"200 HTML", 200, "text/html", inHTML},
	{"400 JSON of a form", 400, "application/json", func(s string) string { return inJSON(inLowerCase(s)) }},
	{"500", 500, "text/plain", plainly},
	{"302", 302, "text/html", url.PathEscape},
	{"260", 260, "text/plain", url.QueryEscape},
	{"403 XML", 403, "application/xml", inXML},
	{"404 JSON", 404, "application/json", allInJSON},
	{"429", 429, "text/plain", inLowerCase},
	{"400", 400, "text/plain", strconv.Quote},
	{"no HTTP", 0, "", plainly},
}

// paddings stand before what is quoted: messages are cut at 300 and 512 bytes,
// among others.
var paddings = []int{0, 285, 495, 70, 190, 300, 512}

// echo is a server that is of no use and tells all that it was sent. With a
// session it has a token for everybody.
func (a answer) echo(t *testing.T, session string) *httptest.Server {
	t.Helper()
	var asked atomic.Int64
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(r.Body, 64<<10))
		if session != "" && strings.HasSuffix(r.URL.Path, "/services/oauth2/token") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(map[string]string{"access_token": session, "instance_url": "http://" + r.Host,
				"id": "https://login.salesforce.com/id/00Dxx0000001gPLEAY/005xx000001Sv6AAAS"})
			return
		}
		said := sentIn(r, string(body))
		n := int(asked.Add(1))
		rest := said[n%len(said):]
		said = append(slices.Clone(rest), said[:n%len(said)]...)
		for i, s := range said {
			said[i] = a.quote(s)
		}
		a.write(w, r, strings.Repeat("a", paddings[n%len(paddings)])+" "+strings.Join(said, " "), said[0])
	}))
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// sentIn is all that a request holds: what it proves itself with stands first.
func sentIn(r *http.Request, body string) []string {
	var said []string
	_, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if _, password, ok := r.BasicAuth(); ok {
		said = append(said, password)
	}
	form, _ := url.ParseQuery(body)
	query := r.URL.Query()
	for _, text := range []string{proof, form.Get("client_secret"), form.Get("refresh_token"), form.Get("assertion"), form.Get("WebIdentityToken"),
		query.Get("sig"), r.Header.Get("X-Amz-Security-Token"), fmt.Sprint(r.Header), r.URL.String(), body} {
		if text != "" {
			said = append(said, text)
		}
	}
	return said
}

func (a answer) write(w http.ResponseWriter, r *http.Request, text, first string) {
	if a.status == 0 {
		if conn, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_, _ = io.WriteString(conn, first+"\r\n\r\n")
			_ = conn.Close()
		}
		return
	}
	line := strings.NewReplacer("\r", "", "\n", "").Replace(first)
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Location", "http://"+r.Host+"/login/"+line+"?token="+line)
	h.Set("WWW-Authenticate", `Bearer error="`+line+`"`)
	h.Set("X-Ms-Error-Code", line)
	w.WriteHeader(a.status)
	switch {
	case strings.HasSuffix(a.contentType, "html"):
		text = "<html><p>" + text
	case strings.HasSuffix(a.contentType, "xml"):
		text = "<Error><Code>Denied</Code><Message>" + text + "</Message></Error>"
	case strings.HasSuffix(a.contentType, "json") && strings.HasPrefix(r.URL.Path, "/services/data"):
		text = `[{"errorCode":"DENIED","message":"` + text + `"}]`
	case strings.HasSuffix(a.contentType, "json"):
		text = `{"error":"denied","error_description":"` + text + `","message":"` + text + `"}`
	}
	_, _ = io.WriteString(w, text)
}

// bus is a Pub/Sub API that answers each call with what proved it.
func (a answer) bus(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := grpc.NewServer(grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		token := a.quote(strings.Join(md.Get("accesstoken"), ""))
		stream.SetTrailer(metadata.Pairs("error-code", "sfdc.platform.eventbus.grpc."+token))
		return status.Error(codes.PermissionDenied, strings.Repeat("a", 285)+" "+token)
	}))
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(srv.Stop)
	return "http://" + ln.Addr().String()
}

// gramSize is how much of a secret is too much to be seen.
const gramSize = 8

// pieces are all stretches of so many bytes of the secrets.
type pieces struct {
	whole map[string]bool
	begin [1 << 16]bool // the first two bytes of one
}

func piecesOf(secrets []string) *pieces {
	p := &pieces{whole: map[string]bool{}}
	for _, s := range secrets {
		for i := 0; i+gramSize <= len(s); i++ {
			p.whole[s[i:i+gramSize]] = true
			p.begin[int(s[i])<<8|int(s[i+1])] = true
		}
	}
	return p
}

// in finds a piece in text, in whatever form; -1 when there is none. What it
// returns is a place in the reading.
func (p *pieces) in(text string) (reading string, at int) {
	for _, reading := range readings(text) {
		for i := 0; i+gramSize <= len(reading); i++ {
			if p.begin[int(reading[i])<<8|int(reading[i+1])] && p.whole[reading[i:i+gramSize]] {
				return reading, i
			}
		}
	}
	return "", -1
}

var (
	percents    = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	backslashes = regexp.MustCompile(`\\u[0-9A-Fa-f]{4}|\\[^a-zA-Z0-9]`)
)

func ofPercents(text string) string {
	return percents.ReplaceAllStringFunc(text, func(s string) string {
		b, _ := strconv.ParseUint(s[1:], 16, 8)
		return string([]byte{byte(b)})
	})
}

func ofBackslashes(text string) string {
	return backslashes.ReplaceAllStringFunc(text, func(s string) string {
		if len(s) == 2 {
			return s[1:]
		}
		b, _ := strconv.ParseUint(s[2:], 16, 16)
		return string(rune(b))
	})
}

func ofPluses(text string) string { return strings.ReplaceAll(text, "+", " ") }

// readings are a text as who tries all decoders would read it.
func readings(text string) []string {
	list := []string{text}
	for _, ways := range [][]func(string) string{
		{ofPercents}, {ofPluses, ofPercents}, {html.UnescapeString}, {ofBackslashes},
		{ofBackslashes, ofBackslashes}, {ofBackslashes, ofBackslashes, ofBackslashes},
		{ofBackslashes, ofPercents}, {ofBackslashes, ofPluses, ofPercents}, {ofPercents, ofBackslashes},
		{html.UnescapeString, ofPercents}, {html.UnescapeString, ofBackslashes}, {ofBackslashes, html.UnescapeString},
		{ofBackslashes, ofBackslashes, ofPercents}, {ofBackslashes, ofBackslashes, html.UnescapeString}, {html.UnescapeString, html.UnescapeString},
	} {
		read := text
		for _, way := range ways {
			read = way(read)
		}
		if !slices.Contains(list, read) {
			list = append(list, read)
		}
	}
	return list
}
