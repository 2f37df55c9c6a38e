"""Headers carry the code of their own request, and of no other."""

from __future__ import annotations

import pytest

from headrace.wire.remoting.codes import RequestCode
from headrace.wire.remoting.headers import admin, groups, offsets, pull, route, send
from headrace.wire.remoting.headers.fields import Header

REQUESTS: dict[type[Header], RequestCode] = {
    admin.CreateTopic: RequestCode.UPDATE_AND_CREATE_TOPIC,
    admin.DeleteTopic: RequestCode.DELETE_TOPIC_IN_BROKER,
    admin.GetConsumeStats: RequestCode.GET_CONSUME_STATS,
    admin.DeleteGroup: RequestCode.DELETE_SUBSCRIPTIONGROUP,
    admin.ViewStats: RequestCode.VIEW_BROKER_STATS_DATA,
    admin.CloneGroupOffset: RequestCode.CLONE_GROUP_OFFSET,
    groups.UnregisterClient: RequestCode.UNREGISTER_CLIENT,
    groups.GetConsumerList: RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    groups.NotifyConsumerIdsChanged: RequestCode.NOTIFY_CONSUMER_IDS_CHANGED,
    groups.GetRunningInfo: RequestCode.GET_CONSUMER_RUNNING_INFO,
    groups.ConsumeDirectly: RequestCode.CONSUME_MESSAGE_DIRECTLY,
    offsets.QueryConsumerOffset: RequestCode.QUERY_CONSUMER_OFFSET,
    offsets.UpdateConsumerOffset: RequestCode.UPDATE_CONSUMER_OFFSET,
    offsets.GetMaxOffset: RequestCode.GET_MAX_OFFSET,
    offsets.GetMinOffset: RequestCode.GET_MIN_OFFSET,
    offsets.SearchOffset: RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    offsets.EarliestStoreTime: RequestCode.GET_EARLIEST_MSG_STORETIME,
    offsets.ResetOffset: RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
    offsets.GetConsumerStatus: RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    pull.PullMessage: RequestCode.PULL_MESSAGE,
    pull.ViewMessage: RequestCode.VIEW_MESSAGE_BY_ID,
    pull.QueryMessage: RequestCode.QUERY_MESSAGE,
    route.GetRouteInfo: RequestCode.GET_ROUTEINFO_BY_TOPIC,
    send.SendMessage: RequestCode.SEND_MESSAGE,
    send.SendBack: RequestCode.CONSUMER_SEND_MSG_BACK,
    send.RecallMessage: RequestCode.RECALL_MESSAGE,
    send.PushReply: RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT,
    send.EndTransaction: RequestCode.END_TRANSACTION,
    send.CheckTransaction: RequestCode.CHECK_TRANSACTION_STATE,
}


@pytest.mark.parametrize("header", REQUESTS, ids=lambda header: header.__name__)
def test_a_request_header_has_its_code(header: type[Header]) -> None:
    assert REQUESTS[header] == header.CODE


def test_headers_of_responses_and_of_several_requests_have_no_code() -> None:
    modules = {one.__module__ for one in REQUESTS}
    with_code = {
        one for one in Header.__subclasses__() if hasattr(one, "CODE") and one.__module__ in modules
    }
    assert with_code == set(REQUESTS)
