//! DNS over UDP and TCP.

use hickory_proto::op::{Message, ResponseCode};
use hickory_proto::rr::RecordType;
use nephila_testweb::model::Fate;
use nephila_testweb::{Settings, Web};
use tokio::net::{TcpStream, UdpSocket};

use crate::client::{addresses, ask_tcp, ask_udp};

#[tokio::test]
async fn udp_and_tcp_give_every_host_the_addresses_of_the_model() {
    let settings = Settings { hosts: 60, addresses: 6, dead_share: 0.3, ..Settings::mixed() };
    let web = Web::builder().settings(settings).start().await.unwrap();
    let mut stream = TcpStream::connect(web.dns_addr()).await.unwrap();
    let (mut several, mut nameless) = (0, 0);
    for host in 0..60 {
        let name = web.world().name(host);
        let by_udp = ask_udp(web.dns_addr(), &name, RecordType::A).await.unwrap();
        let by_tcp = ask_tcp(&mut stream, &name.to_uppercase(), RecordType::A).await.unwrap();
        let expected: Vec<std::net::IpAddr> =
            web.world().addresses(host).into_iter().map(Into::into).collect();
        assert_eq!(addresses(&by_udp), expected);
        assert_eq!(addresses(&by_tcp), expected);
        several += u32::from(expected.len() > 1);
        if web.world().fate(host) == Fate::Nameless {
            assert_eq!(by_udp.metadata.response_code, ResponseCode::NXDomain);
            assert!(!by_udp.authorities.is_empty(), "nothing says how long to remember that");
            nameless += 1;
        }
    }
    assert!(several > 10 && nameless > 0);
    let log = web.stop().await;
    assert_eq!(log.lookups.len(), 120);
    assert_eq!(log.lookups.iter().filter(|lookup| lookup.tcp).count(), 60);
    assert!(log.lookups.iter().all(|lookup| lookup.kind == "A" && lookup.name.ends_with(".test")));
}

#[tokio::test]
async fn names_that_are_not_hosts_do_not_exist_and_domains_are_empty() {
    let web = Web::builder().start().await.unwrap();
    for (name, code) in [
        ("h0.d1.test", ResponseCode::NXDomain),
        ("h999.d249.test", ResponseCode::NXDomain),
        ("example.org", ResponseCode::NXDomain),
        ("d0.test", ResponseCode::NoError),
        ("test", ResponseCode::NoError),
    ] {
        let answer = ask_udp(web.dns_addr(), name, RecordType::A).await.unwrap();
        assert_eq!((answer.metadata.response_code, answer.answers.len()), (code, 0), "{name}");
    }
    let mail = ask_udp(web.dns_addr(), "h0.d0.test", RecordType::MX).await.unwrap();
    assert_eq!((mail.metadata.response_code, mail.answers.len()), (ResponseCode::NoError, 0));
}

#[tokio::test]
async fn an_answer_too_long_for_udp_is_cut_and_whole_over_tcp() {
    let settings = Settings { addresses: 60, addresses_per_host_max: 60, hosts: 200, ..Settings::default() };
    let web = Web::builder().settings(settings).start().await.unwrap();
    let host = (0..200).find(|host| web.world().addresses(*host).len() > 40).unwrap();
    let name = web.world().name(host);
    let by_udp = ask_udp(web.dns_addr(), &name, RecordType::A).await.unwrap();
    assert!(by_udp.metadata.truncation && by_udp.answers.is_empty());
    let mut stream = TcpStream::connect(web.dns_addr()).await.unwrap();
    let by_tcp = ask_tcp(&mut stream, &name, RecordType::A).await.unwrap();
    assert!(!by_tcp.metadata.truncation);
    assert_eq!(by_tcp.answers.len(), web.world().addresses(host).len());
}

#[tokio::test]
async fn nonsense_is_not_answered_and_does_no_harm() {
    let web = Web::builder().start().await.unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut response = Message::query();
    response.metadata.message_type = hickory_proto::op::MessageType::Response;
    for bytes in [&b""[..], b"\0", &[0xff; 600], &response.to_vec().unwrap()] {
        socket.send_to(bytes, web.dns_addr()).await.unwrap();
    }
    let answer = ask_udp(web.dns_addr(), "h0.d0.test", RecordType::A).await.unwrap();
    assert_eq!(answer.answers.len(), 1);
    let mut buffer = [0u8; 64];
    assert!(socket.try_recv(&mut buffer).is_err(), "nonsense was answered");
}
