package prooftest

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sf2loki/pkg/lokitest"
	"sf2loki/scripts/testbed"
)

// written are all files that the programs write, each with what writes it.
// Spools and what lies beside their files have tests of links of their own.
var written = []struct {
	file    string // a pattern, when the program finds the name
	mode    fs.FileMode
	follows bool // a link of root or of the user; otherwise it is replaced or refused
	refuses bool // any link
	script  string
}{
	{"d/state.json", 0o600, true, false, `ckpt commit d/state.json <acks`},
	{"d/state.json.lock", 0o600, true, false, `ckpt commit d/state.json <acks`},
	{"d/ledger", 0o600, true, false, `ckpt commit state.json --ledger d/ledger <acks`},
	{"d/lease.json", 0o600, true, false, `ckpt lease d/lease.json --fence state.json --id a --ttl 1s --renew 200ms -- true`},
	{"d/page.html", 0o600, false, false, `ckpt audit --since 2026-07-01 --until 2026-07-02 --allow-empty --ledger empty --page d/page.html <empty`},
	{"d/report", 0o600, false, false, `ckpt commit state.json --report d/report <acks`},
	{"d/report", 0o600, false, false, `loki-push --report d/report --dead-letter-fd -1 <letters`},
	{"d/report", 0o600, false, false, `dl-replay cat --report d/report letters`},
	{"d/report", 0o600, false, false, `sf-pull elf --file events.csv --report d/report`},
	{"d/m.prom", 0o644, false, false, `ckpt commit state.json --metrics-file d/m.prom <acks`},
	{"d/m.prom", 0o644, false, false, `loki-push --metrics-file d/m.prom --dead-letter-fd -1 <letters`},
	{"d/m.prom", 0o644, false, false, `dl-replay cat --metrics-file d/m.prom letters`},
	{"d/m.prom", 0o644, false, false, `sf-pull elf --file events.csv --metrics-file d/m.prom`},
	{"d/daily", 0o600, true, false, `loki-push --daily-bytes 1000000 --daily-file d/daily --dead-letter-fd -1 <entries`},
	{"d/out.db", 0o600, false, true, `dl-replay export --format sqlite --output d/out.db letters`},
	{"d/out.parquet", 0o600, false, true, `dl-replay export --format parquet --output d/out.parquet letters`},
	{"d/*.ndjson", 0o600, false, false, `loki-push --spool d <letters`},
	{"d/*.journal", 0o600, false, false, `loki-push --spool d <letters; dl-replay discard --spool d --because x --reason too_old`},
	{"d/*.failed", 0o600, false, false, `loki-push --spool d <letters; dl-replay run --spool d --force -- loki-push --max-age 7d || test $? = 65`},
}

// newWriting makes a bench with what the scripts read, and without an org.
func newWriting(t *testing.T, srv *lokitest.Server) *bench {
	b := &bench{testbed.New(t), nil, srv}
	b.Set("LOKI_PUSH_URL=" + srv.URL)
	const letter = `{"ts":"2020-01-01T00:00:00Z","labels":{"source":"a","event_type":"b"},"line":"old"}` + "\n"
	b.Write("acks", `{"checkpoint_key":"file:x","checkpoint_value":"1"}`+"\n")
	b.Write("letters", letter)
	b.Write("entries", strings.Replace(letter, "2020-01-01T00:00:00Z", time.Now().UTC().Format(time.RFC3339), 1))
	b.Write("events.csv", `"EVENT_TYPE","TIMESTAMP"`+"\n"+`"Login","20260701000000.000"`+"\n")
	b.Write("empty", "")
	return b
}

func newLoki(t *testing.T) *lokitest.Server {
	srv := lokitest.NewServer(lokitest.Config{})
	t.Cleanup(srv.Close)
	return srv
}

// modes are the files of a directory tree with their modes.
func (b *bench) modes(dir string) map[string]fs.FileMode {
	b.T.Helper()
	found := map[string]fs.FileMode{}
	err := filepath.WalkDir(b.Path(dir), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			name, _ := filepath.Rel(b.Dir, path)
			found[name] = info.Mode()
		}
		return err
	})
	if err != nil {
		b.T.Fatal(err)
	}
	return found
}

// What a program writes is for its user alone, whatever the umask, but for
// metrics, which the node exporter reads. Nothing else is left there.
func TestModes(t *testing.T) {
	t.Parallel()
	srv := newLoki(t)
	for _, w := range written {
		for _, mask := range []string{"000", "077"} {
			b := newWriting(t, srv)
			b.OK("mkdir d && umask " + mask + " && { " + w.script + "; }")
			seen := false
			for name, mode := range b.modes("d") {
				want := fs.FileMode(0o600)
				if ok, _ := filepath.Match(w.file, name); ok {
					seen, want = true, w.mode
				}
				if mode != want {
					t.Errorf("umask %s: %s: %s has %v, want %v", mask, w.script, name, mode, want)
				}
			}
			if !seen {
				t.Errorf("umask %s: %s: there is no %s: %v", mask, w.script, w.file, b.modes("d"))
			}
		}
	}
}

// A file of the same user keeps the mode that it was given; one of another
// user is not what its owner may read or write afterwards.
func TestModesThatStay(t *testing.T) {
	t.Parallel()
	srv := newLoki(t)
	for _, w := range written {
		if strings.Contains(w.file, "*") || w.refuses || w.file == "d/state.json.lock" {
			continue
		}
		b := newWriting(t, srv)
		b.OK("mkdir d; " + w.script + "; chmod 640 " + w.file + "; " + strings.ReplaceAll(w.script, "<acks", "<empty"+" --allow-empty"))
		if mode := b.modes("d")[w.file]; mode != 0o640 {
			t.Errorf("%s: mode %v after 640", w.script, mode)
		}
		if os.Geteuid() != 0 || w.follows {
			continue // only root can make another's file; a document is its owner's, whoever writes
		}
		b.OK("chown 65534 " + w.file + "; chmod 666 " + w.file + "; " + w.script + "; stat -c %u " + w.file + " >owner")
		if mode := b.modes("d")[w.file]; mode != w.mode || b.Read("owner") != fmt.Sprintf("%d\n", os.Geteuid()) {
			t.Errorf("%s: over a file of another user: mode %v, owner %s", w.script, mode, b.Read("owner"))
		}
	}
}

// plantings are ways to have another file written than the one that was named.
// TARGET is the one.
var plantings = []struct {
	name, do string
	others   bool // it is somebody else's
	dir      bool // the link is the directory's
}{
	{name: "a link", do: `mkdir d; ln -s ../precious FILE`},
	{name: "another's link", do: `mkdir d; ln -s ../precious FILE; chown -h 65534 FILE`, others: true},
	{name: "a link at the name of a temporary file", do: `mkdir d; for n in FILE.tmp FILE.new FILE~ d/.tmp; do ln -s ../precious $n; done`},
	{name: "a link of the directory", do: `mkdir real; ln -s real d`, dir: true},
	{name: "another's link of the directory", do: `mkdir real; ln -s real d; chown -h 65534 d`, dir: true, others: true},
}

// A link never has a program write another file than its user, or root, meant.
func TestPlantedLinks(t *testing.T) {
	t.Parallel()
	srv := newLoki(t)
	for _, w := range written {
		if strings.Contains(w.file, "*") {
			continue
		}
		for _, p := range plantings {
			if p.others && os.Geteuid() != 0 {
				continue // only root can make another's link
			}
			for _, precious := range []string{"precious text\n", ""} {
				if precious == "" && !strings.HasSuffix(p.name, "link") {
					continue // tells no more
				}
				b := newWriting(t, srv)
				if precious != "" {
					b.Write("precious", precious)
				}
				b.OK("FILE=" + w.file + "; " + strings.ReplaceAll(p.do, "FILE", "$FILE"))
				r := b.Run(w.script)
				what := fmt.Sprintf("%s, %q behind it: %v", p.name, precious, r)
				got, meant := b.Read("precious"), false
				switch atPath := strings.HasSuffix(p.name, "a link") && !p.dir; {
				case p.name == "another's link of the directory":
					if r.Status == 0 || len(b.modes("real")) > 0 {
						t.Errorf("%s\nwas followed: %v", what, b.modes("real"))
					}
				case p.dir:
					if b.modes("real")["real/"+strings.TrimPrefix(w.file, "d/")] != w.mode {
						t.Errorf("%s\nthe file is not there: %v", what, b.modes("real"))
					}
				case atPath && w.follows:
					meant = precious == "" || w.file == "d/state.json.lock" || w.file == "d/lease.json" // no content that it could be refused for
				case p.others && w.follows, w.refuses && !strings.Contains(p.name, "temporary"):
					if r.Status == 0 || w.follows && strings.HasPrefix(w.script, "ckpt") && r.Status != 78 {
						t.Errorf("%s\nis no error, or another one", what)
					}
				default:
					if b.modes("d")[w.file] != w.mode {
						t.Errorf("%s\nthe file is not there: %v", what, b.modes("d"))
					}
				}
				if !meant && got != precious {
					t.Errorf("%s\nthe target was written: %q", what, got)
				}
				if _, err := os.Lstat(b.Path("precious")); !meant && precious == "" && err == nil {
					t.Errorf("%s\nthe target was made", what)
				}
			}
		}
	}
}

// What is no file is written to as it is: a descriptor, where it stands, and a
// FIFO. Neither name is replaced. The links are as those of /dev, which a program
// that fails here would spoil for the whole machine.
func TestReportOfAStream(t *testing.T) {
	t.Parallel()
	b := newWriting(t, newLoki(t))
	for _, test := range []struct{ to, script, out string }{
		{"stdout", `ln -s /proc/self/fd/1 stdout; { echo before; $CMD; echo after; } >out`, "out"},
		{"/dev/fd/5", `{ echo before >&5; $CMD; echo after >&5; } 5>out`, "out"},
		{"/proc/self/fd/5", `{ echo before >&5; $CMD; echo after >&5; } 5>out`, "out"},
		{"stderr", `ln -s /proc/self/fd/2 stderr; { echo before >&2; $CMD --log-level warn; echo after >&2; } 2>out`, "out"},
		{"fifo", `mkfifo fifo; { echo before; cat fifo; echo after; } >out & exec 4<>fifo; $CMD; exec 4>&-; wait`, "out"},
		{"stdout", `{ echo before; $CMD; echo after; } | cat >out`, "out"},
		{"link", `ln -s stdout link; { echo before; $CMD; echo after; } >out`, "out"},
	} {
		b.OK("rm -f out; CMD='ckpt commit state.json --report " + test.to + "'; CMD=\"$CMD --allow-empty\"; exec </dev/null; " + test.script)
		lines := strings.Split(strings.TrimSpace(b.Read(test.out)), "\n")
		if len(lines) != 4 || lines[0] != "before" || !strings.Contains(lines[1], `"scope":"event_type"`) ||
			!strings.Contains(lines[2], `"scope":"run"`) || lines[3] != "after" {
			t.Errorf("--report %s, %s: %q", test.to, test.script, lines)
		}
	}
	for name, kind := range map[string]fs.FileMode{"stdout": fs.ModeSymlink, "stderr": fs.ModeSymlink, "link": fs.ModeSymlink, "fifo": fs.ModeNamedPipe} {
		if info, err := os.Lstat(b.Path(name)); err != nil || info.Mode().Type() != kind {
			t.Errorf("%s has become %v, %v", name, info, err)
		}
	}
	if r := b.Run("mkdir dir; ckpt commit state.json --report dir <acks"); r.Status != 74 {
		t.Errorf("a directory: %v", r)
	}
}
