package redishistory

import "encoding/binary"

// packed is an array in MessagePack, which scripts unpack quicker than anything that Lua could read itself.
type packed []byte

// newPacked begins an array of n values.
func newPacked(n int) packed {
	const array32 = 0xdd
	return binary.BigEndian.AppendUint32(packed{array32}, uint32(n))
}

func (p packed) text(s string) packed {
	const shortText, text8, text32 = 0xa0, 0xd9, 0xdb
	switch {
	case len(s) < 32:
		p = append(p, shortText|byte(len(s)))
	case len(s) < 256:
		p = append(p, text8, byte(len(s)))
	default:
		p = binary.BigEndian.AppendUint32(append(p, text32), uint32(len(s)))
	}
	return append(p, s...)
}

func (p packed) number(n int64) packed {
	const int64Value = 0xd3
	return binary.BigEndian.AppendUint64(append(p, int64Value), uint64(n))
}

// texts is an array of texts.
func texts(all []string) packed {
	p := newPacked(len(all))
	for _, text := range all {
		p = p.text(text)
	}
	return p
}
