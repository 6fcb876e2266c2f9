package rls

import (
	"errors"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

var (
	errMalformed = errors.New("malformed protobuf message")
	errUTF8      = errors.New("string field contains invalid UTF-8")
)

// decode reads a RateLimitRequest (envoy/service/ratelimit/v3/rls.proto) into a call, as proto.Unmarshal would:
// unknown fields and known ones of another wire type are passed over, the last of several scalars wins, several
// messages merge. All strings of a request share one allocation.
func decode(data []byte, c *limit.Call) error {
	w := wire{data, string(data)}
	for len(w.data) > 0 {
		f, err := w.next()
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			c.Domain, err = f.body.utf8()
		case f.is(2, protowire.BytesType):
			err = decodeDescriptor(f.body, c.AddDescriptor())
		case f.is(3, protowire.VarintType):
			c.Hits = uint32(f.value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeDescriptor reads a RateLimitDescriptor (envoy/extensions/common/ratelimit/v3/ratelimit.proto).
func decodeDescriptor(w wire, d *limit.Descriptor) error {
	for len(w.data) > 0 {
		f, err := w.next()
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.BytesType):
			var e descriptors.Entry
			e, err = decodeEntry(f.body)
			d.Entries = append(d.Entries, e)
		case f.is(2, protowire.BytesType):
			d.HasOverride = true
			err = decodeOverride(f.body, &d.Override)
		case f.is(3, protowire.BytesType):
			d.HasHits = true
			d.Hits, err = decodeWrapped(f.body, d.Hits)
		case f.is(4, protowire.VarintType):
			d.Refund = f.value != 0
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func decodeEntry(w wire) (e descriptors.Entry, err error) {
	for len(w.data) > 0 {
		f, err := w.next()
		if err != nil {
			return e, err
		}
		switch {
		case f.is(1, protowire.BytesType):
			e.Key, err = f.body.utf8()
		case f.is(2, protowire.BytesType):
			e.Value, err = f.body.utf8()
		}
		if err != nil {
			return e, err
		}
	}
	return e, nil
}

// decodeOverride reads a RateLimitOverride. A unit that has no name becomes 0.
func decodeOverride(w wire, o *limit.Override) error {
	for len(w.data) > 0 {
		f, err := w.next()
		if err != nil {
			return err
		}
		switch {
		case f.is(1, protowire.VarintType):
			o.Requests = uint32(f.value)
		case f.is(2, protowire.VarintType):
			o.Unit = 0
			if unit := uint32(f.value); unit <= uint32(descriptors.Week) {
				o.Unit = descriptors.Unit(unit)
			}
		case f.is(3, protowire.BytesType):
			var value uint64
			value, err = decodeWrapped(f.body, uint64(o.Multiplier))
			o.Multiplier, o.HasMultiplier = uint32(value), true
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// decodeWrapped reads a google.protobuf.UInt32Value or UInt64Value on top of what an earlier one said.
func decodeWrapped(w wire, was uint64) (uint64, error) {
	for len(w.data) > 0 {
		f, err := w.next()
		if err != nil {
			return 0, err
		}
		if f.is(1, protowire.VarintType) {
			was = f.value
		}
	}
	return was, nil
}

// wire is a stretch of a message, as bytes to parse and as the text to cut strings from. Both are always equal.
type wire struct {
	data []byte
	text string
}

func (w wire) utf8() (string, error) {
	if !utf8.ValidString(w.text) {
		return "", errUTF8
	}
	return w.text, nil
}

// field is one field of a message: a number if its type is varint, a stretch if it is bytes.
type field struct {
	number protowire.Number
	typ    protowire.Type
	value  uint64
	body   wire
}

func (f *field) is(number protowire.Number, typ protowire.Type) bool {
	return f.number == number && f.typ == typ
}

// next takes one field off the front.
func (w *wire) next() (f field, err error) {
	number, typ, n := protowire.ConsumeTag(w.data)
	if n < 0 || number > protowire.MaxValidNumber {
		return f, errMalformed
	}
	w.skip(n)
	f.number, f.typ = number, typ
	switch typ {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(w.data)
	case protowire.BytesType:
		var body []byte
		if body, n = protowire.ConsumeBytes(w.data); n >= 0 {
			f.body = wire{body, w.text[n-len(body) : n]}
		}
	default:
		n = protowire.ConsumeFieldValue(number, typ, w.data)
	}
	if n < 0 {
		return f, errMalformed
	}
	w.skip(n)
	return f, nil
}

func (w *wire) skip(n int) { w.data, w.text = w.data[n:], w.text[n:] }
