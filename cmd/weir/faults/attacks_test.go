package faults_test

import (
	"encoding/binary"
	"net"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http2"
)

// frame is one of HTTP/2. Settings and pings are of the connection, all others of a stream.
type frame struct {
	kind, flags byte
	payload     string
}

const (
	data, headers, reset, settings, ping, continuation = 0, 1, 3, 4, 6, 9

	endStream, endHeaders = 1, 4
)

// headerBlock is a header block of a call in HPACK: POST, http, :path, :authority, content-type.
func headerBlock(path string) string {
	return "\x83\x86\x04" + string(rune(len(path))) + path + "\x01\x01x\x0f\x10\x10application/grpc"
}

// message is the only message of a call.
func message(body string) frame {
	return frame{data, endStream, "\x00" + string(binary.BigEndian.AppendUint32(nil, uint32(len(body)))) + body}
}

// ask begins the call that Envoys make.
var ask = headerBlock("/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit")

// attack is what hostile clients send on each connection: so many streams, each of these frames.
type attack struct {
	number, what string
	does         deed
	first        frame // of the connection
	streams      int
	frames       []frame // none: what fillWindows sends
}

// deed is how an attack is played.
type deed uint8

const (
	quick        deed = 1 << iota // in the short form, too
	readsNothing                  // the clients read nothing
	dribbles                      // a byte for each frame: it takes 125 of memory
	floods                        // clients leave when they have sent all, and come back; others stay
)

var attacks = []attack{
	{"29a", "HEADERS without a message", quick, plainSettings, 1000, []frame{askHeaders}},
	{"29b", "messages announced and never whole", 0, plainSettings, 200,
		[]frame{askHeaders, {data, 0, "\x00\x00\x10\x00\x00" + strings.Repeat("x", 16<<10-5)}}},
	{"29c", "header lists of 16 MB in CONTINUATION", floods, plainSettings, 1, append([]frame{{headers, 0, ask}},
		slices.Repeat([]frame{{continuation, 0, strings.Repeat("\x00\x01a\x64"+strings.Repeat("v", 100), 157)}}, 1000)...)},
	{"29d", "header lists of a byte for each field", 0, plainSettings, 256,
		[]frame{{headers, endHeaders, ask + "\x40\x01a\x00" + strings.Repeat("\xbe", 1800)}}},
	{"29e", "messages of a byte for each frame", dribbles, plainSettings, 100,
		append([]frame{askHeaders, {data, 0, "\x00\x00\x10\x00\x00"}}, slices.Repeat([]frame{{data, 0, "x"}}, 1000)...)},
	{"29f", "whole requests whose answers nobody takes", 0, noWindow, 256, []frame{askHeaders, message("")}},
	{"29g", "health watches", 0, plainSettings, 256,
		[]frame{{headers, endHeaders, headerBlock("/grpc.health.v1.Health/Watch")}, message("")}},
	{"29h", "whole requests that are reset at once", quick | floods, plainSettings, 2000,
		[]frame{askHeaders, message(""), cancel}},
	{"29i", "reflection whose answers nobody takes", quick, noWindow, 256,
		[]frame{{headers, endHeaders, headerBlock("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")},
			message("\x22\x2benvoy.service.ratelimit.v3.RateLimitService")}}, // file_containing_symbol
	{"29j", "requests of 64 descriptors whose answers nobody reads", quick | readsNothing, plainSettings, 256,
		[]frame{askHeaders, message("\x0a\x01d" + strings.Repeat("\x12\x08\x0a\x06\x0a\x01k\x12\x01v", 64))}},
	{"29k", "half requests that are reset at once", floods, plainSettings, 2000, []frame{askHeaders, cancel}},
	{"29l", "pings", floods, plainSettings, 1, pings},
	{"29m", "pings whose answers nobody reads", floods | readsNothing, plainSettings, 1, pings},
	{"29n", "settings", floods, plainSettings, 10_000, []frame{plainSettings}},
	{"29o", "settings whose answers nobody reads", floods | readsNothing, plainSettings, 10_000, []frame{plainSettings}},
	{"29p", "a message of 1 MB but for a byte, as fast as weir takes it", quick, plainSettings, 1, nil},
}

var (
	askHeaders    = frame{headers, endHeaders, ask}
	plainSettings = frame{kind: settings}
	cancel        = frame{reset, 0, "\x00\x00\x00\x08"}
	pings         = slices.Repeat([]frame{{ping, 0, "12345678"}}, 10_000)
)

// noWindow says that no answer may be sent.
var noWindow = frame{settings, 0, "\x00\x04\x00\x00\x00\x00"}

// encode returns the bytes of the attack on one connection.
func (a *attack) encode() []byte {
	b := []byte(http2.ClientPreface)
	write := func(p frame, stream uint32) {
		if p.kind == settings || p.kind == ping {
			stream = 0
		}
		b = append(b, byte(len(p.payload)>>16), byte(len(p.payload)>>8), byte(len(p.payload)), p.kind, p.flags)
		b = append(binary.BigEndian.AppendUint32(b, stream), p.payload...)
	}
	write(a.first, 0)
	for i := range uint32(a.streams) {
		for _, p := range a.frames {
			write(p, 2*i+1)
		}
	}
	return b
}

// initialWindow is how many bytes HTTP/2 lets a client send on a connection or a stream at first.
const initialWindow = 65_535

// fillWindows begins calls with a message of a megabyte each, and sends all of it but the last byte, as far and as fast as
// the windows of the connection and the streams grow. It returns when it has, or they grow no more.
func fillWindows(conn net.Conn, streams int) {
	_ = conn.SetDeadline(time.Now().Add(unread))
	defer conn.SetDeadline(time.Time{})
	_, _ = conn.Write([]byte(http2.ClientPreface))
	f := http2.NewFramer(conn, conn)
	_ = f.WriteSettings()
	const whole = 1 << 20 // bytes of a message
	window, left := map[uint32]int{0: initialWindow}, make(map[uint32]int)
	for id := uint32(1); id < 2*uint32(streams); id += 2 {
		_ = f.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: []byte(ask), EndHeaders: true})
		_ = f.WriteData(id, false, binary.BigEndian.AppendUint32([]byte{0}, whole))
		window[id], left[id] = initialWindow-5, whole-1
		window[0] -= 5
	}
	for len(left) > 0 {
		for id := range left {
			for n := 1; n > 0; {
				n = min(window[0], window[id], left[id], 16<<10)
				if n > 0 && f.WriteData(id, false, make([]byte, n)) != nil {
					return
				}
				window[0], window[id], left[id] = window[0]-n, window[id]-n, left[id]-n
			}
			if left[id] == 0 {
				delete(left, id)
			}
		}
		switch received, err := f.ReadFrame(); r := received.(type) {
		case *http2.WindowUpdateFrame:
			window[r.StreamID] += int(r.Increment)
		case *http2.PingFrame: // weir measures the connection
			_ = f.WritePing(true, r.Data)
		default:
			if err != nil {
				return
			}
		}
	}
}
