package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// Old temporary files of the path are removed, and nothing else.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for name, at := range map[string]time.Time{
		".state.json.123": old, ".state.json.456": time.Now().Add(time.Hour), ".state.json.12x": old,
		".other.json.123": old, "state.json": old, ".state.json.": old,
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, at, at); err != nil {
			t.Fatal(err)
		}
	}
	Sweep(filepath.Join(dir, "state.json"), time.Now())
	Sweep(filepath.Join(dir, "nowhere", "state.json"), time.Now())
	var left []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{".other.json.123", ".state.json.", ".state.json.12x", ".state.json.456", "state.json"}
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	if err := SyncDir(filepath.Join(dir, "nowhere")); err == nil {
		t.Error("a directory that is not there was synced")
	}
}
