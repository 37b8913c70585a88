package checkpoint_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/sysexits"
)

func openLedger(t *testing.T, path string) *checkpoint.Ledger {
	t.Helper()
	l, err := checkpoint.OpenLedger(path, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func TestLedgerIsAppendedTo(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	for i := range 3 {
		l := openLedger(t, path)
		if err := l.Add("r", "k", fmt.Appendf(nil, `{"rows":%d}`, i)); err != nil {
			t.Fatal(err)
		}
		if text, _ := os.ReadFile(path); strings.Count(string(text), "\n") != i {
			t.Errorf("before Flush the file holds %q", text)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	if text, _ := os.ReadFile(path); strings.Count(string(text), "\n") != 3 {
		t.Errorf("the file holds %q", text)
	}
}

// What a killed writer left of a line goes, however long it is.
func TestLedgerTornLine(t *testing.T) {
	for _, torn := range []string{`{"v":1,"acc`, strings.Repeat("x", 200<<10)} {
		path := filepath.Join(t.TempDir(), "ledger")
		if err := os.WriteFile(path, []byte(`{"v":1,"account":{}}`+"\n"+torn), 0o600); err != nil {
			t.Fatal(err)
		}
		l := openLedger(t, path)
		if err := l.Add("r", "k", []byte(`{"rows":1}`)); err != nil {
			t.Fatal(err)
		}
		if err := l.Flush(); err != nil {
			t.Fatal(err)
		}
		text, _ := os.ReadFile(path)
		lines := strings.SplitAfter(string(text), "\n")
		if len(lines) != 3 || lines[0] != `{"v":1,"account":{}}`+"\n" || !strings.HasSuffix(lines[1], `"account":{"rows":1}}`+"\n") {
			t.Errorf("the file holds %.200q", text)
		}
	}
}

func TestLedgerIsWrittenBeforeItFillsMemory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	l := openLedger(t, path)
	account := []byte(`{"origin":"` + strings.Repeat("x", 10_000) + `"}`)
	for range 150 {
		if err := l.Add("r", "k", account); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() < 1<<20 {
		t.Errorf("after 1.5 MB the file has %v, %v", info, err)
	}
}

func TestLedgerShared(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger")
	var wg sync.WaitGroup
	for range 4 {
		l := openLedger(t, path)
		wg.Go(func() {
			for range 20 {
				if err := l.Add("r", "k", []byte(`{"rows":1}`)); err != nil {
					t.Error(err)
				}
				if err := l.Flush(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, `{"v":1,`) || !strings.HasSuffix(line, `"account":{"rows":1}}`+"\n") {
			t.Fatalf("a torn line: %q", line)
		}
	}
	if n := strings.Count(string(text), "\n"); n != 80 {
		t.Errorf("%d lines, want 80", n)
	}
}

func TestNoLedger(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	tests := []struct {
		path string
		code sysexits.Code
		want string
	}{
		{write("document", "{\n\"a\": \"1\"\n}\n"), 78, "is not a ledger"},
		{write("text", "hello\n"), 78, "is not a ledger"},
		{write("no version", "{}\n"), 78, "is not a ledger"},
		{write("newer", `{"v":2}`+"\n"), 78, "newer than this release"},
		{dir, 73, "is a directory"},
		{os.DevNull, 73, "is not a file"},
		{filepath.Join(dir, "none", "ledger"), 73, "no such file"},
		{filepath.Join(dir, "text", "ledger"), 73, "not a directory"},
	}
	for _, test := range tests {
		before, _ := os.ReadFile(test.path)
		_, err := checkpoint.OpenLedger(test.path, time.Now)
		wantStatus(t, err, test.code, test.want)
		if after, _ := os.ReadFile(test.path); string(after) != string(before) {
			t.Errorf("%s was changed", test.path)
		}
	}
}
