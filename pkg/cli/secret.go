package cli

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"sf2loki/pkg/sysexits"
)

// SecretFlag is a secret that is never an argument. Its sources, the first one
// that is there wins: the file of --NAME-file; the environment, as
// PREFIX_NAME_FILE or PREFIX_NAME; NAME-file of a configuration file; the file
// NAME in $CREDENTIALS_DIRECTORY. Two at one level, and a blank one at the
// level that wins, are errors with status 78.
type SecretFlag struct {
	app  *App
	name string

	path  string
	level level
	twice bool
}

// Secret declares the flag --NAME-file for the secret name.
func Secret(app *App, fs *flag.FlagSet, name, usage string) *SecretFlag {
	s := &SecretFlag{app: app, name: name}
	fs.Var(&value{s.set, func() string { return s.path }}, name+"-file", usage+", from `FILE`")
	app.secrets = append(app.secrets, s)
	return s
}

func (s *SecretFlag) set(path string) error {
	s.twice = s.level == s.app.level
	s.path, s.level = path, s.app.level
	return nil
}

// Set tells whether a secret is configured, blank or not.
func (s *SecretFlag) Set() bool {
	_, fromVariable := s.app.LookupEnv(s.app.envName(s.name))
	_, fromVariableFile := s.app.LookupEnv(s.app.envName(s.name) + "_FILE")
	if s.level != fromDefault || fromVariable || fromVariableFile {
		return true
	}
	_, err := os.Stat(s.credential())
	return s.credential() != "" && err == nil
}

// Value reads the secret afresh, so that one that was replaced is used from
// then on. It is "" when none is configured: see Set. One line feed at its end
// is not part of it.
func (s *SecretFlag) Value() (string, error) {
	text, err := s.read()
	return text, sysexits.Wrap(sysexits.Config, err)
}

func (s *SecretFlag) read() (string, error) {
	env := s.app.envName(s.name)
	text, fromVariable := s.app.LookupEnv(env)
	pathVariable, fromVariableFile := s.app.LookupEnv(env + "_FILE")
	switch {
	case s.twice:
		return "", fmt.Errorf("--%s-file is given twice", s.name)
	case s.level == fromFlags:
		return s.file("--"+s.name+"-file", s.path)
	case fromVariable && fromVariableFile:
		return "", fmt.Errorf("both %s and %s_FILE are set", env, env)
	case fromVariableFile:
		return s.file(env+"_FILE", pathVariable)
	case fromVariable:
		return notBlank(env, text)
	case s.level == fromConfig:
		return s.file(s.name+"-file", s.path)
	}
	text, err := s.file("credential "+s.name, s.credential())
	if s.credential() == "" || errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return text, err
}

// credential is the secret's place in the directory that systemd passes.
func (s *SecretFlag) credential() string {
	dir, _ := s.app.LookupEnv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return ""
	}
	return filepath.Join(dir, s.name)
}

func (s *SecretFlag) file(source, path string) (string, error) {
	if path == "" {
		return "", fmt.Errorf("%s names no file", source)
	}
	data, err := readFile(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("%s: %w", source, err)
	}
	data = bytes.TrimSuffix(bytes.TrimSuffix(data, []byte("\n")), []byte("\r"))
	return notBlank(source+" "+path, string(data))
}

// maxSecret is larger than any key or token, in bytes.
const maxSecret = 1 << 20

// readFile reads a file of max bytes at most, so that the name of a device or
// of a log in its place does not fill the memory.
func readFile(path string, max int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		err = fmt.Errorf("%s has more than %d bytes", path, max)
	}
	return data, err
}

func notBlank(source, text string) (string, error) {
	if strings.TrimSpace(text) == "" {
		return "", fmt.Errorf("%s: the secret is blank", source)
	}
	return text, nil
}
