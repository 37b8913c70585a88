package loki

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"sf2loki/pkg/secret"
	"sf2loki/pkg/sysexits"
)

// authorizer sets the Authorization header of a request.
type authorizer interface{ authorize(h http.Header) error }

type noAuth struct{}

func (noAuth) authorize(http.Header) error { return nil }

type bearer struct{ token *credential }

func (b bearer) authorize(h http.Header) error {
	token, err := b.token.value()
	if err != nil {
		return err
	}
	b.token.known.Add(token)
	h["Authorization"] = []string{"Bearer " + token}
	return nil
}

type basic struct {
	user     string
	password *credential
}

func (b basic) authorize(h http.Header) error {
	password, err := b.password.value()
	if err != nil {
		return err
	}
	sent := base64.StdEncoding.EncodeToString([]byte(b.user + ":" + password))
	b.password.known.AddBasic(sent)
	h["Authorization"] = []string{"Basic " + sent}
	return nil
}

// newAuthorizer picks the credentials: a token or a user of the configuration,
// else the userinfo of the URL.
func newAuthorizer(cfg Config, inURL *url.Userinfo) (authorizer, error) {
	if inURL != nil {
		cfg.Log.Warn("the URL holds credentials, where other users of the machine can see them; use a secret file")
	}
	if cfg.Token != nil && cfg.User != "" {
		return nil, sysexits.Errorf(sysexits.Config, "both a token and a user are given; Loki takes one of them")
	}
	switch {
	case cfg.Token != nil:
		token := &credential{name: "token", read: cfg.Token, known: cfg.Secrets, log: cfg.Log}
		_, err := token.value()
		return bearer{token}, err
	case cfg.User != "":
		if cfg.Password == nil {
			return nil, sysexits.Errorf(sysexits.Config, "user %q has no password", cfg.User)
		}
		return newBasic(cfg, cfg.User, cfg.Password)
	case cfg.Password != nil:
		return nil, sysexits.Errorf(sysexits.Config, "a password is given, but no user")
	case inURL != nil:
		password, _ := inURL.Password()
		return newBasic(cfg, inURL.Username(), func() (string, error) { return password, nil })
	}
	return noAuth{}, nil
}

func newBasic(cfg Config, user string, read func() (string, error)) (authorizer, error) {
	if strings.Contains(user, ":") {
		return nil, sysexits.Errorf(sysexits.Config, "a user name with a colon cannot be sent as basic auth")
	}
	password := &credential{name: "password", read: read, known: cfg.Secrets, log: cfg.Log}
	_, err := password.value()
	return basic{user, password}, err
}

// credential is a secret that is read again for every request. A file that is being
// replaced can be empty or gone for a moment: until it can be read again, the
// last good value serves.
type credential struct {
	name  string
	read  func() (string, error)
	known *secret.Set // is told of it
	log   *slog.Logger

	mu      sync.Mutex
	last    string
	have    bool
	failing bool
}

func (s *credential) value() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, err := s.read()
	if err == nil && hasControl(v) {
		err = sysexits.Errorf(sysexits.Config, "the %s holds a line break or another control character", s.name)
	}
	if err == nil {
		s.last, s.have, s.failing = v, true, false
		return v, nil
	}
	if !s.have {
		if sysexits.Coded(err) {
			return "", err
		}
		return "", sysexits.Wrap(sysexits.Config, fmt.Errorf("read the %s: %w", s.name, err))
	}
	if !s.failing {
		s.log.Warn("secret cannot be read, its last value is used", "secret", s.name, "err", err)
		s.failing = true
	}
	return s.last, nil
}
