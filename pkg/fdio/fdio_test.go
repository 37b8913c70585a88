package fdio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary starts itself as a stage of a pipeline: FDIO_STAGE names
// what it then is.
func TestMain(m *testing.M) {
	switch os.Getenv("FDIO_STAGE") {
	case "inherited":
		f, err := Inherited(3)
		fmt.Println(f != nil, err)
		if f != nil {
			_, err = f.WriteString("hello\n")
			again, _ := Inherited(3)
			fmt.Println(err, again != nil)
		}
	case "writer":
		writeStage()
	default:
		os.Exit(m.Run())
	}
}

// writeStage writes lines of growing length, all of one letter.
func writeStage() {
	f, err := Inherited(3)
	if err != nil || f == nil {
		panic(fmt.Sprint("no descriptor 3: ", err))
	}
	w := NewLineWriter(f)
	for i := range stageLines {
		line := bytes.Repeat([]byte(os.Getenv("FDIO_LETTER")), 1+i*1500)
		if err := w.Write(append(line, '\n')); err != nil {
			panic(err)
		}
	}
}

const stageLines = 60

func stage(t *testing.T, name, letter string, fd3 *os.File) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "FDIO_STAGE="+name, "FDIO_LETTER="+letter)
	cmd.Stderr = os.Stderr
	if fd3 != nil {
		cmd.ExtraFiles = []*os.File{fd3}
	}
	return cmd
}

func TestInherited(t *testing.T) {
	dir := t.TempDir()
	file := func(flag int) *os.File {
		f, err := os.OpenFile(filepath.Join(dir, "f"), flag|os.O_CREATE, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket, peer := os.NewFile(uintptr(pair[0]), "socket"), os.NewFile(uintptr(pair[1]), "peer")
	defer socket.Close()
	defer peer.Close()
	_, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()

	const ours, not = "true <nil>\n<nil> false\n", "false <nil>\n"
	tests := []struct {
		name string
		fd3  *os.File
		want string
	}{
		{"closed, or what the runtime opened there", nil, not},
		{"file for writing", file(os.O_WRONLY), ours},
		{"file for both", file(os.O_RDWR), ours},
		{"file for reading", file(os.O_RDONLY), not},
		{"socket", socket, not},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := stage(t, "inherited", "", tt.fd3).Output()
			if err != nil || string(out) != tt.want {
				t.Errorf("got %q, %v, want %q", out, err, tt.want)
			}
		})
	}
}

func TestInheritedHere(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f")) // close-on-exec, as all that Go opens
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, fd := range []int{int(f.Fd()), 999} {
		if got, err := Inherited(fd); got != nil || err != nil {
			t.Errorf("Inherited(%d) = %v, %v", fd, got, err)
		}
	}
}

// stages runs one writer for each letter, all with descriptor 3 from open.
func stages(t *testing.T, letters string, open func() *os.File) {
	t.Helper()
	var cmds []*exec.Cmd
	for _, l := range letters {
		cmd := stage(t, "writer", string(l), open())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		cmds = append(cmds, cmd)
	}
	for _, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// checkLines fails unless text is all the lines of all the stages, each whole
// and those of one stage in order.
func checkLines(t *testing.T, text []byte, letters string) {
	t.Helper()
	next := map[byte]int{}
	for line := range bytes.Lines(text) {
		letter := line[0]
		if n := next[letter]; len(line) != 2+n*1500 || bytes.Count(line, line[:1]) != len(line)-1 {
			t.Fatalf("line %d of %c is torn: %d bytes", n, letter, len(line))
		}
		next[letter]++
	}
	for _, l := range letters {
		if next[byte(l)] != stageLines {
			t.Errorf("%d lines of %c, want %d", next[byte(l)], l, stageLines)
		}
	}
}

func TestLinesOfStages(t *testing.T) {
	const letters = "abcd"
	open := func(path string, flag int) *os.File {
		f, err := os.OpenFile(path, flag|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	t.Run("one open file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		f := open(path, 0)
		stages(t, letters, func() *os.File { return f })
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkLines(t, text, letters)
	})
	t.Run("opened one by one, without append", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "f")
		stages(t, letters, func() *os.File { return open(path, 0) })
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		checkLines(t, text, letters)
	})
	t.Run("pipe", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		text := make(chan []byte)
		go func() {
			b, err := io.ReadAll(r)
			if err != nil {
				t.Error(err)
			}
			text <- b
		}()
		stages(t, letters, func() *os.File { return w })
		w.Close()
		checkLines(t, <-text, letters)
	})
}

// A write that fails in the middle leaves no torn line.
func TestFailedWriteIsUndone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	script := `ulimit -f 8; trap "" XFSZ; exec 3>"$1"; exec "$0"` // blocks of 512 bytes in dash, of 1024 in bash
	cmd := exec.Command("sh", "-c", script, os.Args[0], path)
	cmd.Env = append(os.Environ(), "FDIO_STAGE=writer", "FDIO_LETTER=a")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "file too large") {
		t.Fatalf("the limit did not show: %v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) == 0 || text[len(text)-1] != '\n' {
		t.Errorf("the file has %d bytes and does not end with a line", len(text))
	}
}

// Another holder of a pipe can make it non-blocking after Go has looked.
func TestNonBlockingPipe(t *testing.T) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	if err := unix.SetNonblock(fds[1], true); err != nil {
		t.Fatal(err)
	}
	line := append(bytes.Repeat([]byte("x"), 1<<20), '\n')
	done := make(chan error)
	go func() {
		err := NewLineWriter(w).Write(line)
		w.Close()
		done <- err
	}()
	got, err := io.ReadAll(r)
	if werr := <-done; err != nil || werr != nil || !bytes.Equal(got, line) {
		t.Errorf("read %d bytes: %v, %v", len(got), err, werr)
	}
}

func TestWriteToGoneReader(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	if err := NewLineWriter(w).Write([]byte("x\n")); err == nil {
		t.Error("no error")
	}
}

func TestReaderGone(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	gone := ReaderGone(t.Context(), w)
	if _, err := w.WriteString("x"); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
		t.Fatal("gone while the reader is there")
	case <-time.After(50 * time.Millisecond):
	}
	r.Close()
	select {
	case <-gone:
	case <-time.After(time.Second):
		t.Fatal("not noticed within a second")
	}
}

func TestReaderGoneEnds(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	before := openFiles(t)
	ctx, cancel := context.WithCancel(t.Context())
	gone := ReaderGone(ctx, w)
	cancel()
	for openFiles(t) > before { // its own pipe, once it has ended
		time.Sleep(time.Millisecond)
	}
	r.Close()
	select {
	case <-gone:
		t.Error("closed after its context had ended")
	case <-time.After(20 * time.Millisecond):
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}

func TestReaderGoneOfOthers(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "f"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	closed, err := os.Create(filepath.Join(t.TempDir(), strconv.Itoa(1)))
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for _, f := range []*os.File{f, closed} {
		select {
		case <-ReaderGone(t.Context(), f):
			t.Errorf("%s has no reader to lose", f.Name())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestReaderGoneOfSocket(t *testing.T) {
	ln, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	conn, err := net.Dial("unix", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	peer, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	f, err := conn.(*net.UnixConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	conn.Close()
	gone := ReaderGone(t.Context(), f)
	peer.Close()
	select {
	case <-gone:
	case <-time.After(time.Second):
		t.Fatal("not noticed within a second")
	}
}

func TestWriteUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		broken := errors.New("broken")
		if ended, err := WriteUntil(stop, func() error { return broken }); !ended || err != broken {
			t.Errorf("ended %t, %v", ended, err)
		}
		time.AfterFunc(time.Minute, func() { close(stop) })
		begun, held := time.Now(), make(chan struct{})
		if ended, _ := WriteUntil(stop, func() error { <-held; return nil }); ended || time.Since(begun) != time.Minute {
			t.Errorf("ended %t after %s", ended, time.Since(begun))
		}
		close(held)
	})
}
