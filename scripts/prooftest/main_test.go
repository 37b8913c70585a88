// Package prooftest proves that nothing is lost and that an auditor can see it:
// audits and the commands that fill holes, planted bugs, planted secrets, and
// the index of faults. The programs are real, as they are installed.
package prooftest

import (
	"os"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

func TestMain(m *testing.M) { os.Exit(testbed.Main(m)) }

// bench is a directory to run scripts in, an org and a Loki.
type bench struct {
	*testbed.Bed
	org *sftest.Org
	srv *lokitest.Server
}

func newBench(t *testing.T) *bench {
	t.Helper()
	return newBenchWith(t, lokitest.Config{})
}

func newBenchWith(t *testing.T, cfg lokitest.Config) *bench {
	t.Helper()
	b := &bench{testbed.New(t), sftest.NewOrg(sftest.Config{Gzip: true}), lokitest.NewServer(cfg)}
	t.Cleanup(b.org.Close)
	t.Cleanup(b.srv.Close)
	b.Set(
		"SF_PULL_LOGIN_URL="+b.org.URL, "SF_PULL_CLIENT_ID="+b.org.ClientID, "SF_PULL_USERNAME="+b.org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Write("key.pem", b.org.PrivateKeyPEM()),
		"LOKI_PUSH_URL="+b.srv.URL,
	)
	return b
}

// hour publishes a file of an hour that is some hours back, made some time ago.
func (b *bench) hour(eventType string, back, rows int, edit func(i int, cells map[string]string)) string {
	start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(back) * time.Hour)
	h := sftest.Hour{Type: eventType, Start: start, Rows: rows, Edit: edit}
	return b.org.AddHour(h, func(f *sftest.LogFile) { f.Created = time.Now().Add(-3 * time.Hour) })
}

// tooOld gives every so many rows a time that Loki refuses.
func tooOld(every int) func(int, map[string]string) {
	return func(i int, cells map[string]string) {
		if i%every == 3 {
			cells["TIMESTAMP_DERIVED"] = time.Now().AddDate(0, 0, -9).UTC().Format("2006-01-02T15:04:05.000Z")
		}
	}
}
