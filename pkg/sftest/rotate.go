package sftest

import (
	"crypto/rand"
	"crypto/rsa"
	"fmt"
)

// Rotate gives the org's app a new secret, which it returns, and a new
// certificate, of which PrivateKeyPEM then is the key. Sessions go on.
func (o *Org) Rotate() (secret string) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		panic(fmt.Sprintf("sftest: %v", err))
	}
	o.mu.Lock()
	o.key, o.rotations = key, o.rotations+1
	o.mu.Unlock()
	return o.secret()
}

// secret is the consumer secret of now: of each rotation another.
func (o *Org) secret() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rotations == 0 {
		return o.ClientSecret
	}
	return fmt.Sprintf("%s-%d", o.ClientSecret, o.rotations)
}

// privateKey is the key of now.
func (o *Org) privateKey() *rsa.PrivateKey {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.key
}
