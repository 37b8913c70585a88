package atomicfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// tree is a directory without links in its name, with some below it.
func tree(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err, os.MkdirAll(filepath.Join(dir, "a", "b"), 0o700))
	for link, to := range map[string]string{"a/up": "..", "l": "a/b", "abs": dir + "/a", "ll": "./l/../up", "gone": "a/new", "loop": "loop"} {
		must(t, os.Symlink(to, filepath.Join(dir, link)))
	}
	return dir
}

func TestResolve(t *testing.T) {
	dir := tree(t)
	for path, want := range map[string]string{
		"a": "a", "a/b/../x": "a/x", "l": "a/b", "l/f": "a/b/f", "l/../f": "a/f", "gone": "a/new", "none/x/y": "none/x/y",
		"a/up/a": "a", "ll": ".", "ll/f": "f", "./a//b/": "a/b",
	} {
		t.Chdir(dir)
		for _, from := range []string{"", dir + "/"} {
			got, err := Resolve(from + path)
			if want := filepath.Join(from, want); err != nil || got != want {
				t.Errorf("%s%s: %s, %v, want %s", from, path, got, err, want)
			}
		}
	}
	if got, err := Resolve("abs/b"); got != dir+"/a/b" || err != nil {
		t.Errorf("abs/b: %s, %v", got, err)
	}
	if _, err := Resolve(dir + "/loop"); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("loop: %v", err)
	}
	if os.Geteuid() != 0 {
		return // nobody else can make a link of another user
	}
	must(t, os.Lchown(dir+"/l", 65534, 65534))
	for _, path := range []string{dir + "/l", dir + "/l/f", dir + "/a/up/l/f"} {
		_, _, openErr := Open(path, 0, 0o600)
		_, err := Resolve(path)
		for _, err := range []error{err, openErr, Write(path, nil, 0o600)} {
			if !errors.Is(err, ErrLink) || !strings.Contains(err.Error(), dir+"/l: ") {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
}

func TestOpen(t *testing.T) {
	old := syscall.Umask(0o777)
	defer syscall.Umask(old)
	dir := t.TempDir()
	path, fifo := filepath.Join(dir, "f"), filepath.Join(dir, "fifo")
	must(t, os.Symlink("f", path+"l"), syscall.Mkfifo(fifo, 0), os.Chmod(fifo, 0o600))
	for i, name := range []string{path + "l", path, path + "l"} {
		f, created, err := Open(name, os.O_APPEND, 0o640)
		must(t, err)
		if _, err := f.WriteString("x"); err != nil || created != (i == 0) {
			t.Errorf("%s: created %t, %v", name, created, err)
		}
		must(t, f.Close())
	}
	check(t, path, "xxx", 0o640)
	for _, name := range []string{fifo, os.DevNull} {
		if f, _, err := Open(name, 0, 0o600); f != nil || !errors.Is(err, ErrNotRegular) {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if _, _, err := Open(filepath.Join(dir, "none", "f"), 0, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: %v", err)
	}
}

func TestReplace(t *testing.T) {
	dir := t.TempDir()
	path, link, fifo := filepath.Join(dir, "f"), filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	must(t, os.Symlink("f", link), os.WriteFile(path, []byte("old"), 0o640), syscall.Mkfifo(fifo, 0o600))
	must(t, Replace(link, []byte("new"), 0o600))
	check(t, link, "new", 0o600)
	check(t, path, "old", 0o640)
	must(t, Replace(path, []byte("new"), 0o600))
	check(t, path, "new", 0o640)
	if err := Replace(dir, nil, 0o600); !errors.Is(err, ErrNotRegular) {
		t.Errorf("a directory: %v", err)
	}
	if err := Replace(fifo, nil, 0o600); !errors.Is(err, syscall.ENXIO) {
		t.Errorf("a FIFO that nobody reads: %v", err)
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	must(t, Replace("/dev/fd/"+strconv.Itoa(int(w.Fd())), []byte("through"), 0o600), w.Close())
	text := make([]byte, 20)
	if n, err := r.Read(text); string(text[:n]) != "through" {
		t.Errorf("a descriptor: %q, %v", text[:n], err)
	}
	if err := Replace("/dev/fd/4321", nil, 0o600); !errors.Is(err, syscall.EBADF) {
		t.Errorf("no descriptor: %v", err)
	}
}
