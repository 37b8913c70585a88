package main

import (
	"context"
	"strings"

	"github.com/peterbourgon/ff/v3/ffcli"

	"sf2loki/pkg/checkpoint"
	"sf2loki/pkg/cli"
	"sf2loki/pkg/sysexits"
)

type set struct {
	app   *cli.App
	raw   bool
	guard guard
}

const setUsage = "ckpt set STORE KEY VALUE [--raw]"

func newSet(app *cli.App) *ffcli.Command {
	s := &set{app: app, guard: guard{app: app}}
	fs := app.FlagSet("ckpt set")
	fs.BoolVar(&s.raw, "raw", false, "store VALUE as it is, whether or not the key's source understands it")
	s.guard.flags(fs)
	return &ffcli.Command{
		Name: "set", ShortUsage: setUsage, ShortHelp: "set the position of a key by hand", FlagSet: fs,
		LongHelp: "VALUE is a token as ckpt get prints it. For files, objects and Apex logs it may be a time or\n" +
			"a date, for a topic earliest or latest. Stop the pipeline first: it would be refused with 76.",
		Exec: s.exec,
	}
}

func (s *set) exec(ctx context.Context, args []string) error {
	store, rest, err := storeAnd(s.app, args, 2, 2, setUsage)
	if err != nil {
		return err
	}
	key := rest[0]
	if err := checkKey(key); err != nil {
		return err
	}
	value, err := s.value(key, rest[1])
	if err != nil {
		return err
	}
	return s.guard.update(ctx, store, func(doc *checkpoint.Document) error {
		doc.Set(key, value)
		doc.ClearRecordTime(key)
		return nil
	})
}

// value is what to store.
func (s *set) value(key, value string) (string, error) {
	if value == "" {
		return "", sysexits.WithHint(cli.Usagef("an empty value is no position"), "ckpt rm removes a key")
	}
	if s.raw {
		return value, nil
	}
	stored, known, err := checkpoint.CheckValue(key, value)
	if err != nil {
		if sysexits.Of(err) == sysexits.DataErr {
			err = sysexits.WithHint(err, "--raw stores it as it is")
		}
		return "", err
	}
	if !known {
		s.app.Log.Warn("the key is of no known source, its value was not checked", "key", key)
	}
	return stored, nil
}

// checkKey refuses keys that are no positions.
func checkKey(key string) error {
	switch {
	case key == "":
		return cli.Usagef("the key is empty")
	case checkpoint.Reserved(key):
		return cli.Usagef("the key %q is reserved", key)
	case strings.HasPrefix(key, checkpoint.DeadLetterPrefix):
		return sysexits.Errorf(sysexits.DataErr, "the key %q belongs to a replay and has no position", key)
	}
	return nil
}
