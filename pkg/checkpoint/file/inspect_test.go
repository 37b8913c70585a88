package file_test

import (
	"os"
	"path/filepath"
	"testing"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/file"
)

// A look at a document tells what is wrong, and changes nothing.
func TestInspect(t *testing.T) {
	levels := func(path string) string {
		text := ""
		for _, f := range file.New(path, path).Inspect(t.Context()) {
			text += f.Check + " " + string(f.Level) + ", "
		}
		return text
	}
	pass, fail := string(checkpoint.Pass), string(checkpoint.Fail)
	dir := t.TempDir()
	path := filepath.Join(dir, "state.json")
	all := "directory " + pass + ", file " + pass + ", lock " + pass + ", file system " + pass + ", "
	if got := levels(path); got != all {
		t.Errorf("nothing there: %s", got)
	}
	if err := os.Mkdir(path+".lock", 0o700); err != nil {
		t.Fatal(err)
	}
	if got := levels(path); got != "directory "+pass+", file "+pass+", lock "+fail+", file system "+pass+", " {
		t.Errorf("a directory for a lock: %s", got)
	}
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := levels(path); got != "directory "+pass+", file "+fail+", lock "+fail+", file system "+pass+", " {
		t.Errorf("a directory for a file: %s", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("a look has changed something: %v, %v", entries, err)
	}
}
