package main

import (
	"fmt"
	"path/filepath"
	"time"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/checkpoint/azure"
	"sf2loki/pkg/checkpoint/file"
	"sf2loki/pkg/checkpoint/gcs"
	"sf2loki/pkg/checkpoint/s3"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

// usualMemory is more than is in use as a rule: the largest document, what
// becomes of it, and its text.
const usualMemory = 96 << 20

// openStore makes the store that text names. Nothing is opened yet.
func openStore(app *cli.App, text string) (checkpoint.Store, error) {
	app.LimitMemory(usualMemory)
	loc, err := checkpoint.ParseLocation(text)
	if err != nil {
		return nil, err
	}
	switch loc.Scheme {
	case "file":
		return file.New(loc.String(), loc.Path), nil
	case "s3":
		return s3.New(loc, app.Secrets)
	case "gs":
		return gcs.New(loc, env(app, "STORAGE_EMULATOR_HOST"), app.Secrets)
	case "azblob":
		return azure.New(loc, azure.Environment{
			Account: env(app, "AZURE_STORAGE_ACCOUNT"), Key: env(app, "AZURE_STORAGE_KEY"),
			SASToken: env(app, "AZURE_STORAGE_SAS_TOKEN"), ConnectionString: env(app, "AZURE_STORAGE_CONNECTION_STRING"),
		}, app.Secrets)
	}
	return nil, sysexits.WithHint(
		sysexits.Errorf(sysexits.Config, "store %s: there are no stores of the kind %s", loc, loc.Scheme),
		"name a file by its path or as file:///PATH, or s3://, gs:// or azblob://")
}

func env(app *cli.App, name string) string {
	value, _ := app.LookupEnv(name)
	return value
}

// openForGood is openStore for a name that is written down somewhere: a path
// becomes one that is right from everywhere.
func openForGood(app *cli.App, text string) (checkpoint.Store, error) {
	name, err := forGood(text)
	if err != nil {
		return nil, err
	}
	return openStore(app, name)
}

func forGood(text string) (string, error) {
	loc, err := checkpoint.ParseLocation(text)
	if err != nil || loc.Scheme != "file" {
		return text, err
	}
	path, err := filepath.Abs(loc.Path)
	if err != nil {
		return "", sysexits.Wrap(sysexits.CantCreat, fmt.Errorf("store %s: %w", text, err))
	}
	return path, nil
}

// writeInterval is how often a store may be written: what is far away and paid
// by the request, more seldom; gs allows one write of an object in a second.
func writeInterval(text string) time.Duration {
	loc, err := checkpoint.ParseLocation(text)
	switch {
	case err != nil:
	case loc.Scheme == "s3", loc.Scheme == "azblob":
		return time.Second
	case loc.Scheme == "gs":
		return 2 * time.Second
	}
	return 200 * time.Millisecond
}
