package salesforce

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// assertionLife is how far ahead an assertion's end lies. Salesforce takes
// about three minutes at most; the rest is room for a clock that is wrong.
const assertionLife = 2 * time.Minute

type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Expires  int64  `json:"exp"` // seconds
}

// signAssertion makes the JWT of the bearer grant, signed with RS256.
func signAssertion(key *rsa.PrivateKey, c claims) (string, error) {
	body, err := json.Marshal(c)
	if err != nil {
		return "", err
	}
	enc := base64.RawURLEncoding
	text := enc.EncodeToString([]byte(`{"alg":"RS256","typ":"JWT"}`)) + "." + enc.EncodeToString(body)
	sum := sha256.Sum256([]byte(text))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		return "", fmt.Errorf("sign with the private key: %w", err)
	}
	return text + "." + enc.EncodeToString(sig), nil
}

// parseKey reads an RSA private key in PEM, PKCS #1 or #8. Its errors say
// nothing of what the text holds.
func parseKey(text string) (*rsa.PrivateKey, error) {
	rest := []byte(text)
	for {
		var block *pem.Block
		block, rest = pem.Decode(rest)
		if block == nil {
			return nil, errors.New("private key: no PEM block of an RSA private key in it")
		}
		switch block.Type {
		case "RSA PRIVATE KEY":
			if block.Headers["DEK-Info"] != "" {
				return nil, errors.New("private key: it is encrypted; give it without a passphrase")
			}
			key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("private key: its PKCS #1 block is damaged")
			}
			return key, nil
		case "PRIVATE KEY":
			key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
			if err != nil {
				return nil, errors.New("private key: its PKCS #8 block is damaged")
			}
			if key, ok := key.(*rsa.PrivateKey); ok {
				return key, nil
			}
			return nil, errors.New("private key: it is no RSA key; Salesforce takes RS256 only")
		case "ENCRYPTED PRIVATE KEY":
			return nil, errors.New("private key: it is encrypted; give it without a passphrase")
		}
	}
}
