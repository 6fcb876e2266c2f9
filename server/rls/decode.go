package rls

import (
	"errors"
	"strings"
	"unicode/utf8"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/weirproxy/weir/descriptors"
	"github.com/weirproxy/weir/server/limit"
)

var errMalformed = errors.New("malformed protobuf message")

// decode reads a RateLimitRequest (envoy/service/ratelimit/v3/rls.proto) into a call, as proto.Unmarshal would: it
// skips unknown fields and wrong wire types, takes the last of several scalars, and merges several messages. It reads
// one descriptor and one entry more than are allowed, and skips the rest. All strings share the memory of data.
//
// Unlike proto.Unmarshal it replaces invalid UTF-8 by U+FFFD: Envoy copies callers' headers into descriptors
// unchecked, and without failure_mode_deny an error because of one header would let the request pass the limits of all
// its other descriptors.
func decode(data string, c *limit.Call) error {
	bytes := unsafe.Slice(unsafe.StringData(data), len(data)) // nobody writes to it
	f := fields{rest: wire{bytes, data}}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			c.Domain = f.body.utf8()
		case f.is(2, protowire.BytesType):
			if len(c.Descriptors) <= limit.MaxDescriptors {
				f.err = decodeDescriptor(f.body, c.AddDescriptor())
			}
		case f.is(3, protowire.VarintType):
			c.Hits = uint32(f.value)
		}
	}
	return f.err
}

// decodeDescriptor reads a RateLimitDescriptor (envoy/extensions/common/ratelimit/v3/ratelimit.proto).
func decodeDescriptor(w wire, d *limit.Descriptor) error {
	f := fields{rest: w}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			if len(d.Entries) <= limit.MaxEntries {
				var e descriptors.Entry
				e, f.err = decodeEntry(f.body)
				d.Entries = append(d.Entries, e)
			}
		case f.is(2, protowire.BytesType):
			d.HasOverride = true
			f.err = decodeOverride(f.body, &d.Override)
		case f.is(3, protowire.BytesType):
			d.HasHits = true
			d.Hits, f.err = decodeWrapped(f.body, d.Hits)
		case f.is(4, protowire.VarintType):
			d.Refund = f.value != 0
		}
	}
	return f.err
}

func decodeEntry(w wire) (e descriptors.Entry, _ error) {
	f := fields{rest: w}
	for f.next() {
		switch {
		case f.is(1, protowire.BytesType):
			e.Key = f.body.utf8()
		case f.is(2, protowire.BytesType):
			e.Value = f.body.utf8()
		}
	}
	return e, f.err
}

// decodeOverride reads a RateLimitOverride. An unknown unit becomes 0.
func decodeOverride(w wire, o *limit.Override) error {
	f := fields{rest: w}
	for f.next() {
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
			value, f.err = decodeWrapped(f.body, uint64(o.Multiplier))
			o.Multiplier, o.HasMultiplier = uint32(value), true
		}
	}
	return f.err
}

// decodeWrapped reads a google.protobuf.UInt32Value or UInt64Value, merged into the value of an earlier one.
func decodeWrapped(w wire, value uint64) (uint64, error) {
	f := fields{rest: w}
	for f.next() {
		if f.is(1, protowire.VarintType) {
			value = f.value
		}
	}
	return value, f.err
}

// wire is a part of a message: bytes to parse, and the same content as a string, to take substrings of.
type wire struct {
	data []byte
	text string
}

func (w wire) utf8() string {
	if utf8.ValidString(w.text) { // checks eight bytes at a time, where ToValidUTF8 goes by runes
		return w.text
	}
	return strings.ToValidUTF8(w.text, "\uFFFD")
}

// fields iterates over the fields of a message. It stops at an error, which its caller may set too.
type fields struct {
	rest wire
	err  error

	number protowire.Number
	typ    protowire.Type
	value  uint64 // of a varint
	body   wire   // of bytes
}

func (f *fields) is(number protowire.Number, typ protowire.Type) bool {
	return f.number == number && f.typ == typ
}

func (f *fields) next() bool {
	if f.err != nil || len(f.rest.data) == 0 {
		return false
	}
	var tag, n int
	if f.number, f.typ, tag = protowire.ConsumeTag(f.rest.data); tag < 0 || f.number > protowire.MaxValidNumber {
		f.err = errMalformed
		return false
	}
	data := f.rest.data[tag:]
	switch f.typ {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(data)
	case protowire.BytesType:
		var body []byte
		if body, n = protowire.ConsumeBytes(data); n >= 0 {
			f.body = wire{body, f.rest.text[tag+n-len(body) : tag+n]}
		}
	default:
		n = protowire.ConsumeFieldValue(f.number, f.typ, data)
	}
	if n < 0 {
		f.err = errMalformed
		return false
	}
	f.rest = wire{data[n:], f.rest.text[tag+n:]}
	return true
}
