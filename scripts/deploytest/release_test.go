package deploytest

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/pkg/sftest"
	"sf2loki/scripts/testbed"
)

// releases are the programs of two neighbouring ones: the directories
// v1.0.0 and v1.1.0 below the one returned. They differ in their version, so
// that is all that is changed in the second.
var releases = sync.OnceValues(func() (string, error) {
	const first, second = "v1.0.0-of-deploytest", "v1.1.0-of-deploytest"
	dir, err := os.MkdirTemp("", "deploytest-")
	if err != nil {
		return "", err
	}
	testbed.AtExit(func() { os.RemoveAll(dir) })
	if err := testbed.Build(filepath.Join(dir, "v1.0.0"), "-ldflags=-s -w -X sf2loki/pkg/cli.release="+first, "sf2loki/cmd/..."); err != nil {
		return dir, err
	}
	if err := os.Mkdir(filepath.Join(dir, "v1.1.0"), 0o755); err != nil {
		return dir, err
	}
	for _, name := range []string{"sf-pull", "loki-push", "ckpt", "dl-replay"} {
		program, err := os.ReadFile(filepath.Join(dir, "v1.0.0", name))
		if err != nil {
			return dir, err
		}
		program = bytes.ReplaceAll(program, []byte(first), []byte(second))
		if err := os.WriteFile(filepath.Join(dir, "v1.1.0", name), program, 0o755); err != nil {
			return dir, err
		}
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	syscall.Umask(0o022) // other users have to get into the roots that are made here
	os.Exit(testbed.Main(m))
}

// bench is a directory with a simulated org and a simulated Loki beside it.
type bench struct {
	testbed.Bed
	org  *sftest.Org
	loki *lokitest.Server
	rows int // published
}

func newBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{org: sftest.NewOrg(sftest.Config{}), loki: lokitest.NewServer(lokitest.Config{})}
	b.Bed = testbed.Bed{T: t, Dir: t.TempDir(), Shell: "dash", Limit: 2 * time.Minute}
	t.Cleanup(b.org.Close)
	t.Cleanup(b.loki.Close)
	b.Set(
		"HOME="+b.Dir, "TMPDIR="+b.Dir, "LC_ALL=C",
		"SF_PULL_LOGIN_URL="+b.org.URL, "SF_PULL_CLIENT_ID="+b.org.ClientID, "SF_PULL_USERNAME="+b.org.Username,
		"SF_PULL_PRIVATE_KEY_FILE="+b.Write("key.pem", b.org.PrivateKeyPEM()), "LOKI_PUSH_URL="+b.loki.URL,
	)
	return b
}

// programs is PATH with those of the releases in front.
func (b *bench) programs(dirs ...string) string {
	b.T.Helper()
	all, err := releases()
	must(b.T, err)
	var path []string
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(all, dir)
		}
		path = append(path, dir)
	}
	return "PATH=" + strings.Join(append(path, systemPath), ":")
}

// publish adds an hour of Login.
func (b *bench) publish(ago, rows int) {
	start := time.Now().UTC().Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour)
	b.org.AddHour(sftest.Hour{Type: "Login", Start: start, Rows: rows}, func(f *sftest.LogFile) { f.Created = time.Now().Add(-time.Duration(ago) * 10 * time.Minute) })
	b.rows += rows
}

// threeDaysAgo adds an hour that only a backfill finds.
func (b *bench) threeDaysAgo(rows int) {
	day := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -3)
	b.org.AddHour(sftest.Hour{Type: "Login", Start: day.Add(10 * time.Hour), Rows: rows}, func(f *sftest.LogFile) { f.Created = day.Add(12 * time.Hour) })
}

// daysAgo is a date.
func daysAgo(n int) string { return time.Now().UTC().AddDate(0, 0, -n).Format(time.DateOnly) }

// sh runs a script that has to end with status.
func (b *bench) sh(status int, path, script string) string {
	b.T.Helper()
	bed := b.Bed
	bed.Env = append([]string{path}, b.Env...)
	r := bed.Run(script)
	if r.Status != status {
		b.T.Fatalf("want status %d: %v", status, r)
	}
	return r.Stdout + r.Stderr
}

// stored is how many entries the simulated Loki holds.
func (b *bench) stored() int { return len(b.loki.Entries("fake")) }
