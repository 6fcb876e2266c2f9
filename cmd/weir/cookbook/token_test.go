package cookbook_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// issuerKey is what the issuer of the recipes' tokens signs with.
const issuerKey = "the cookbook's issuer signs its tokens with this"

// keyFile is where the document says that Envoy finds the issuer's keys.
const keyFile = "/etc/envoy/jwks.json"

// withKeys writes the issuer's keys, and puts the file in the place of the document's.
func withKeys(t *testing.T, filters []any) []any {
	t.Helper()
	text, err := json.Marshal(filters)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), keyFile) {
		return filters
	}
	file := filepath.Join(t.TempDir(), "jwks.json")
	keys := fmt.Sprintf(`{"keys": [{"kty": "oct", "alg": "HS256", "k": %q}]}`, encode(issuerKey))
	if err := os.WriteFile(file, []byte(keys), 0o644); err != nil {
		t.Fatal(err)
	}
	var out []any
	if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), keyFile, file)), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// token is a signed JWT with claims.
func token(claims string) string {
	text := encode(`{"alg":"HS256","typ":"JWT"}`) + "." + encode(claims)
	sum := hmac.New(sha256.New, []byte(issuerKey))
	sum.Write([]byte(text))
	return text + "." + encode(string(sum.Sum(nil)))
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
