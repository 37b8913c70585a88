package prooftest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// The ceilings of sf-pull(1), in MiB.
const (
	pullCeiling  = 256 // whatever Salesforce answers
	filesCeiling = 32  // elf with ordinary rows
	manyCeiling  = 256 // the same, of many queries at a time
	rowCeiling   = 300 // a row as long as --max-row-bytes lets through
)

// orgPeers are what sf-pull may meet that is more than any client may get.
var orgPeers = []peer{
	{name: "files, nobody reads", command: "sf-pull elf --event-type * --grace 1s", ceiling: filesCeiling, unread: true, answers: nil},
	{name: "files", command: "sf-pull elf --event-type *", ceiling: filesCeiling},
	{name: "row without end", command: "sf-pull elf --event-type Login", ceiling: rowCeiling, answers: &answers{to: "/LogFile", write: func(w http.ResponseWriter, _ *http.Request, n int64) {
		_, _ = io.WriteString(w, "EVENT_TYPE,TIMESTAMP_DERIVED,X\nLogin,2026-07-01T00:00:00.000Z,\"")
		flood(w, "x", min(n, 60<<20)) // more is no file of the length that was listed
	}}},
	{name: "header row without end", command: "sf-pull elf --event-type Login", ceiling: rowCeiling, answers: &answers{to: "/LogFile", write: func(w http.ResponseWriter, _ *http.Request, n int64) {
		flood(w, "a,", n)
	}}},
	{name: "short rows", command: "sf-pull elf --event-type Login", ceiling: filesCeiling, answers: &answers{to: "/LogFile", write: func(w http.ResponseWriter, _ *http.Request, n int64) {
		_, _ = io.WriteString(w, "EVENT_TYPE,TIMESTAMP_DERIVED,X\n")
		flood(w, "a\n", min(n, 50<<20))
	}}},
	{name: "rows, nobody reads", command: "sf-pull objects --object LoginHistory --grace 1s", ceiling: pullCeiling, unread: true, answers: &answers{to: "/query", write: pages(2000, 200)}},
	{name: "rows without end", command: "sf-pull objects --object LoginHistory", ceiling: pullCeiling, answers: &answers{to: "/query", times: 60, write: pages(2000, 200)}},
	{name: "wide rows without end", command: "sf-pull objects --object LoginHistory", ceiling: pullCeiling, answers: &answers{to: "/query", times: 20, write: pages(50, 100_000)}},
	{name: "pages with long names", command: "sf-pull objects --object LoginHistory", ceiling: pullCeiling, answers: &answers{to: "/query", times: 500, write: longPages}},
	{name: "large listings at once", command: "sf-pull elf --event-type Login,Logout,API,RestApi,Report,URI,ApexCallout,ApexExecution --concurrency 8", ceiling: manyCeiling, answers: &answers{to: "/query", times: 24, write: largeListing}},
	{name: "listing without end", command: "sf-pull elf --event-type Login", ceiling: pullCeiling, answers: &answers{to: "/query", times: 20, write: listing}},
	{name: "list of files without end", command: "sf-pull list", ceiling: pullCeiling, answers: &answers{to: "/query", times: 40, write: listing}},
}

// pages is a result without end of rows so wide: each page leads to the next.
func pages(rows, width int) func(w http.ResponseWriter, r *http.Request, offered int64) {
	fill := strings.Repeat("y", width)
	return func(w http.ResponseWriter, r *http.Request, offered int64) {
		n := pageOf(r)
		w.Header().Set("Content-Type", "application/json")
		more := int64(n+1)*int64(rows)*int64(width+100) < offered
		fmt.Fprintf(w, `{"totalSize":%d,"done":%t,`, (n+1)*rows, !more)
		if more {
			fmt.Fprintf(w, `"nextRecordsUrl":"/services/data/v62.0/query/%d-2000",`, n+1)
		}
		_, _ = io.WriteString(w, `"records":[`)
		comma := ""
		for i := range rows {
			at := time.Now().Add(-20*time.Hour + time.Duration(n*rows+i)*time.Millisecond).UTC().Format("2006-01-02T15:04:05.000+0000")
			fmt.Fprintf(w, `%s{"attributes":{"type":"LoginHistory"},"Id":"0Ya%015d","LoginTime":%q,"Text":%q}`, comma, n*rows+i, at, fill)
			comma = ","
		}
		_, _ = io.WriteString(w, "]}")
	}
}

// pageOf is the number of the page that is asked for.
func pageOf(r *http.Request) (n int) {
	_, rest, _ := strings.Cut(r.URL.Path, "/query/")
	_, _ = fmt.Sscan(strings.TrimSuffix(rest, "-2000"), &n) // the first has none
	return n
}

// longPages lead on and on, by names as long as a URL may be, and hold next to nothing.
func longPages(w http.ResponseWriter, r *http.Request, _ int64) {
	_, rest, _ := strings.Cut(r.URL.Path, "/query/")
	var n int
	_, _ = fmt.Sscan(strings.TrimLeft(rest, "x"), &n)
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprintf(w, `{"totalSize":1,"done":false,"nextRecordsUrl":"/services/data/v62.0/query/%s%d","records":[]}`, strings.Repeat("x", 14000), n+1)
}

// listing is one of files without end.
func listing(w http.ResponseWriter, r *http.Request, offered int64) {
	const rows = 2000
	n := pageOf(r)
	w.Header().Set("Content-Type", "application/json")
	more := int64(n+1)*rows*250 < offered
	fmt.Fprintf(w, `{"totalSize":%d,"done":%t,`, (n+1)*rows, !more)
	if more {
		fmt.Fprintf(w, `"nextRecordsUrl":"/services/data/v62.0/query/%d-2000",`, n+1)
	}
	_, _ = io.WriteString(w, `"records":[`)
	at := time.Now().Add(-5 * time.Hour).UTC().Format("2006-01-02T15:04:05.000+0000")
	comma := ""
	for i := range rows {
		fmt.Fprintf(w, `%s{"Id":"0AT%015d","EventType":"Login","Interval":"Hourly","LogDate":%q,"CreatedDate":%q,"LogFileLength":1000.0,"Sequence":1}`, comma, n*rows+i, at, at)
		comma = ","
	}
	_, _ = io.WriteString(w, "]}")
}

// largeListing is one of a single file, whose row is almost as long as an answer
// may be.
func largeListing(w http.ResponseWriter, _ *http.Request, _ int64) {
	w.Header().Set("Content-Type", "application/json")
	at := time.Now().Add(-5 * time.Hour).UTC().Format("2006-01-02T15:04:05.000+0000")
	fmt.Fprintf(w, `{"totalSize":1,"done":true,"records":[{"Id":"0AT000000000000001","EventType":"Login","Interval":"Hourly","LogDate":%q,"CreatedDate":%q,"LogFileLength":1000.0,"Sequence":1,"Pad":"`, at, at)
	flood(w, "y", 60<<20)
	_, _ = io.WriteString(w, `"}]}`)
}

// fileSize is how large the files are that an org offers.
const fileSize = 16 << 20

// files puts as much as is offered into files of four event types.
func files(t *testing.T, org *sftest.Org) {
	hour := sftest.Hour{Type: "Login", Start: time.Now().UTC().Truncate(time.Hour).Add(-4 * time.Hour), Rows: 20000}
	text := hour.CSV()
	head, rows, _ := strings.Cut(string(text), "\n")
	head += "\n"
	copies := (fileSize - len(head)) / len(rows)
	length := int64(len(head) + copies*len(rows))
	for i := range max(8, offer(t)/length) {
		org.AddLogFile(sftest.LogFile{
			EventType: []string{"Login", "API", "Report", "URI"}[i%4], LogDate: hour.Start, Created: time.Now().Add(-3 * time.Hour), Sequence: int(i), Length: length,
			Write: func(w io.Writer) error {
				if _, err := io.WriteString(w, head); err != nil {
					return err
				}
				for range copies {
					if _, err := io.WriteString(w, rows); err != nil {
						return err
					}
				}
				return nil
			},
		})
	}
}

// Whatever Salesforce answers, and whether or not anybody reads what sf-pull
// writes, its memory stays below what its manual page says. PROOFTEST_ALL asks
// for the ills of every request, not of queries alone.
func TestOrgPeers(t *testing.T) {
	var all []peer
	for name, write := range ills {
		for _, at := range []struct{ what, to, command string }{
			{"login", "/token", "sf-pull limits"},
			{"query", "/query", "sf-pull objects --object LoginHistory"},
			{"download", "/LogFile", "sf-pull elf --event-type Login"},
			{"debug log", "/Body", "sf-pull apexlog"},
		} {
			p := peer{name: at.what + ", " + name, command: at.command, ceiling: pullCeiling, answers: &answers{to: at.to, times: 1, write: write}}
			if hangs[name] {
				p.answers.times = -1
			}
			if at.what == "query" || os.Getenv("PROOFTEST_ALL") != "" {
				all = append(all, p)
			}
		}
	}
	for _, p := range append(all, orgPeers...) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			b := testbed.New(t)
			var org *sftest.Org
			backend := func(w http.ResponseWriter, r *http.Request) {
				u, _ := url.Parse(org.URL)
				httputil.NewSingleHostReverseProxy(u).ServeHTTP(w, r)
			}
			front, enough := badly(t, p.answers, http.HandlerFunc(backend))
			srv := httptest.NewServer(front)
			t.Cleanup(srv.Close)
			srv.Config.ErrorLog = nil
			org = sftest.NewOrg(sftest.Config{InstanceURL: srv.URL, Gzip: true})
			t.Cleanup(org.Close)
			org.DefineObjects()
			org.AddApexLog(sftest.ApexLog{Start: time.Now().Add(-time.Hour), Body: "61.0 APEX_CODE,DEBUG\n"})
			if strings.Contains(p.command, "*") {
				files(t, org)
			} else {
				org.AddHour(sftest.Hour{Type: "Login", Start: time.Now().UTC().Truncate(time.Hour).Add(-5 * time.Hour), Rows: 5})
			}
			if p.unread {
				enough = after(t, patience(t))
			}
			b.Set("SF_PULL_LOGIN_URL="+srv.URL, "SF_PULL_AUTH=client-credentials", "SF_PULL_CLIENT_ID="+org.ClientID,
				"SF_PULL_CLIENT_SECRET="+org.ClientSecret, "SF_PULL_TMPDIR="+b.Dir, "SF_PULL_SETTLE=0s")
			p.meet(t, b, enough)
		})
	}
}
