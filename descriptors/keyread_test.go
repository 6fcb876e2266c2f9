package descriptors

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// rounds is how many random descriptors a test tries: fewer in the form of make test.
func rounds() int {
	if testing.Short() {
		return 4000
	}
	return 20_000
}

var longText = strings.Repeat("long", 40)

// readable is a configuration with rules of each kind: values, keys alone, patterns, shared ones, long texts.
func readable(t testing.TB, keys Keys) *Config {
	t.Helper()
	fixed, err := NewLimit(10, Minute, 1, FixedWindow, 0)
	if err != nil {
		t.Fatal(err)
	}
	rule := func(patterns ...string) *Rule { return &Rule{Limits: []Limit{fixed}, Patterns: patterns} }
	domains := []*Domain{{Name: "shop"}, {Name: "shop_b"}, {Name: longText}}
	for _, d := range domains {
		add := func(parent *Node, key, value string, r *Rule) *Node {
			n, _ := parent.Add(key, value, "f:1")
			d.SetRule(n, r)
			return n
		}
		user := add(&d.Root, "user", "", rule())
		add(user, "path", "/pay", rule())
		add(user, "path", "/v1/*", rule("", "/v1/*"))
		add(user, "path", longText+"*", rule("", longText+"*"))
		add(user, "path", "", rule())
		add(&d.Root, "user", "vip", rule())
		add(&d.Root, "user", longText, rule())
		add(&d.Root, "tenant", "t*", rule())
		add(&d.Root, "tenant", "", rule())
		add(&d.Root, "*", "any", rule())
		add(&d.Root, "plan", "*", rule("*"))
		add(&d.Root, longText, "", rule())
	}
	return NewConfig(keys, domains, nil)
}

// randomDescriptor is of words that rules know, and others.
func randomDescriptor(random *rand.Rand) Descriptor {
	pick := func(words ...string) string { return words[random.IntN(len(words))] }
	value := func() string {
		return pick("ann", "vip", "", "any", "t", "t1", "_", "a_path_x", "/pay", "/v1/a", "/v1/*", "*", longText, longText+"s",
			longText+"*", "4:user", "#", strings.Repeat("v", 1100), strings.Repeat("v", 400), strings.Repeat("w", 129))
	}
	d := Descriptor{{pick("user", "tenant", "plan", "other", longText), value()}}
	for random.IntN(3) == 0 {
		d = append(d, Entry{pick("path", "user", "x"), value()})
	}
	return d
}

func TestAKeyTellsWhatItCounts(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, keys := range []Keys{{}, {Prefix: "p"}, {Prefix: longText}} {
		c := readable(t, keys)
		hashes, untold := 0, 0
		for range rounds() {
			domain, d := []string{"shop", "unknown", longText}[random.IntN(3)], randomDescriptor(random)
			m := c.Match(domain, d)
			read, err := c.ReadKey(m.AppendKey(nil, domain, d))
			if errors.Is(err, ErrUntold) {
				untold++
				if !read.Hashed && len(m.AppendKey(nil, domain, d)) != len("##")+43 {
					t.Fatalf("the key of %.200q tells nothing (%+v), though no part is hashed", d, read)
				}
				continue
			}
			if err != nil || read.Rule != m.Rule {
				t.Fatalf("the key of %.200q is read as %+v, %v; want rule %+v, which counts under it", d, read, err, m.Rule)
			}
			if read.Hashed {
				hashes++
			} else if !sameBut(read.Descriptor, d, m.Rule) || read.Domain != domain {
				t.Fatalf("the key of %.200q is read as %.200q of %q", d, read.Descriptor, read.Domain)
			}
		}
		if hashes == 0 || untold == 0 {
			t.Errorf("%d keys had hashed parts, %d told nothing; want some of each, or nothing is proven of them", hashes, untold)
		}
	}
}

// sameBut reports whether read is d, but for values that share a count.
func sameBut(read, d Descriptor, r *Rule) bool {
	if len(read) != len(d) {
		return false
	}
	for i := range d {
		if want := (Entry{d[i].Key, r.counted(d, i)}); read[i] != want {
			return false
		}
	}
	return true
}

func TestKeysOfNoRuleAreToldApart(t *testing.T) {
	c := readable(t, Keys{})
	d := Descriptor{{"user", "ann"}, {"path", "/v1/a"}}
	m := c.Match("shop", d)
	brought := m.Apart(&m.Rule.Limits[0], ChargeByAlgorithm).AppendKey(nil, "shop", d)
	if read, err := c.ReadKey(brought); err != nil || read.Rule != nil || read.Descriptor.String() != d.String() {
		t.Errorf("the key of a limit that a request brings is read as %+v, %v; want its descriptor, and no rule: the rule "+
			"counts under a pattern", read, err)
	}
	for _, key := range []string{"", "4:sho", "4:shop", "4:shop4:user", "04:shop4:user3:ann", "#", "##", "probe", "1:p4:shop4:user3:ann"} {
		if read, err := c.ReadKey([]byte(key)); !errors.Is(err, ErrOtherKey) {
			t.Errorf("%q is read as %+v, %v; want ErrOtherKey", key, read, err)
		}
	}
	if read, err := readable(t, Keys{Prefix: "p"}).ReadKey([]byte("4:shop4:user3:ann")); !errors.Is(err, ErrOtherKey) {
		t.Errorf("a key without the prefix is read as %+v, %v; want ErrOtherKey", read, err)
	}
}

func TestKeysOfRatelimitAreReadByTheRules(t *testing.T) {
	c := readable(t, Keys{Format: KeysOfRatelimit, Prefix: "p:"})
	for _, tc := range []struct {
		stem, domain, want string
		ambiguous          bool
	}{
		{"p:shop_user_ann_", "shop", "user=ann", false},
		{"p:shop_user_vip_", "shop", "user=vip", false},
		{"p:shop_user__", "shop", "user=", false},
		{"p:shop_user_a_b_", "shop", "user=a_b", false},
		{"p:shop_user_ann_path_/pay_", "shop", "user=ann,path=/pay", true}, // or user=ann_path_/pay
		{"p:shop_user_ann_path_/v1/*_", "shop", "user=ann,path=/v1/*", true},
		{"p:shop_b_user_ann_", "shop_b", "user=ann", false},
		{"p:shop_b_any_", "shop", "b=any", false},
		{"p:shop_tenant_t1_", "shop", "tenant=t1", false},
		{"p:shop_plan_gold_", "shop", "", false}, // its rule counts under plan=*
		{"p:shop_plan_*_", "shop", "plan=*", false},
		{"p:shop_cart_", "shop", "", false},
	} {
		read, err := c.ReadKey(PlainKey([]byte(tc.stem)))
		if err != nil || read.Domain != tc.domain || read.Descriptor.String() != tc.want || (read.Rule != nil) != (tc.want != "") ||
			read.Ambiguous != tc.ambiguous {
			t.Errorf("%s is read as %+v, %v; want %q in %s (\"\": no rule's), ambiguous %t", tc.stem, read, err, tc.want, tc.domain, tc.ambiguous)
		}
	}
	for _, stem := range []string{"", "_", "p:bank_user_ann_", "shop_user_ann_"} {
		if read, err := c.ReadKey(PlainKey([]byte(stem))); !errors.Is(err, ErrOtherKey) {
			t.Errorf("%q is read as %+v, %v; want ErrOtherKey", stem, read, err)
		}
	}
	if read, err := c.ReadKey(PlainKey([]byte("p:shop_" + strings.Repeat("_", 5000)))); !errors.Is(err, ErrUntold) {
		t.Errorf("5,000 separators are read as %+v, %v; want ErrUntold: a request can make such a key, and reading it takes time", read, err)
	}
	if read, err := c.ReadKey(PlainKey([]byte("p:##" + strings.Repeat("A", 43) + "_"))); !errors.Is(err, ErrUntold) {
		t.Errorf("a hash is read as %+v, %v; want ErrUntold", read, err)
	}
	if _, err := c.ReadKey(PlainKey([]byte("p:shop_" + strings.Repeat("user_a_", 140)))); err != nil && !errors.Is(err, ErrUntold) {
		t.Error(err)
	}
}

// Whoever reaches a Redis can put any key there.
func FuzzReadKey(f *testing.F) {
	f.Add([]byte("4:shop4:user3:ann"), "")
	f.Add([]byte("4:shop4:user#"+strings.Repeat("A", 43)), "p")
	f.Add([]byte("\x00shop_user_ann_"), "")
	f.Add([]byte("##"+strings.Repeat("A", 43)), "")
	f.Fuzz(func(t *testing.T, key []byte, prefix string) {
		for _, keys := range []Keys{{Prefix: prefix}, {Prefix: prefix, Format: KeysOfRatelimit}} {
			c := readable(t, keys)
			read, err := c.ReadKey(key)
			if err != nil {
				if !errors.Is(err, ErrOtherKey) && !errors.Is(err, ErrUntold) {
					t.Fatalf("%q: %v", key, err)
				}
				continue
			}
			if _, plain := PlainStem(key); plain || read.Hashed {
				continue
			}
			if again := (Match{keys: keys}).AppendKey(nil, read.Domain, read.Descriptor); !bytes.Equal(again, key) {
				t.Fatalf("%q is read as %q of %q, whose key is %q", key, read.Descriptor, read.Domain, again)
			}
		}
	})
}
