// Package eventbus is the gRPC interface of the Pub/Sub API, generated from
// eventbus.proto:
//
//	protoc -I pkg/pubsub/eventbus --go_out=. --go_opt=module=sf2loki \
//		--go-grpc_out=. --go-grpc_opt=module=sf2loki eventbus.proto
//
// (protoc-gen-go v1.36.12, protoc-gen-go-grpc v1.6.2).
package eventbus
