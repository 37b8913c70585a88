package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

// stdin is the path that stands for standard input.
const stdin = "-"

// readResume reads the checkpoint document of --resume, once. No path is no
// document.
func readResume(app *cli.App, path string) (checkpoint.Document, error) {
	if path == "" {
		return checkpoint.Document{}, nil
	}
	code, name := sysexits.Config, path
	var data []byte
	var err error
	if path == stdin {
		code, name = sysexits.DataErr, "standard input"
		data, err = readBounded(app.Stdin)
	} else {
		data, err = readDocument(path)
	}
	if errors.Is(err, fs.ErrNotExist) {
		app.Log.Warn("the file of --resume does not exist: this is a first start", "file", path)
		return checkpoint.Document{}, nil
	}
	if err != nil {
		return checkpoint.Document{}, sysexits.Errorf(code, "--resume: %w", err)
	}
	doc, err := checkpoint.ParseDocument(data)
	switch to, moved := doc.MovedTo(); {
	case errors.Is(err, checkpoint.ErrEmpty) && path == stdin:
		err = sysexits.WithHint(fmt.Errorf("%s is empty, not even {}", name), "the command that was to print the document has failed; ckpt export prints {} for a store that does not exist")
	case err != nil:
		err = fmt.Errorf("%s holds no checkpoint document: %w", name, err)
	case moved:
		return doc, sysexits.Errorf(sysexits.Config, "--resume: the positions of %s have been moved to %s", name, to)
	default:
		return doc, nil
	}
	return checkpoint.Document{}, sysexits.Errorf(code, "--resume: %w", err)
}

// readDocument reads a file that should hold a checkpoint document.
func readDocument(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readBounded(f)
}

func readBounded(r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, checkpoint.MaxBytes+1))
	if len(data) > checkpoint.MaxBytes {
		return nil, fmt.Errorf("more than %s are no checkpoint document", cli.FormatSize(checkpoint.MaxBytes))
	}
	return data, err
}
